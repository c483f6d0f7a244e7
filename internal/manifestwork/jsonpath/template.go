// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonpath

import (
	"fmt"

	"k8s.io/client-go/util/jsonpath"
)

// TemplateBytesMax is the length of a template in bytes: of a path and its braces.
const TemplateBytesMax = PathBytesMax + len("{}")

// The nodes that paths are parsed into, for who walks them within limits of its own.
type (
	// Node is a step of a path.
	Node = jsonpath.Node
	// ListNode is several steps, one after the other.
	ListNode = jsonpath.ListNode
	// FieldNode is a field by its name.
	FieldNode = jsonpath.FieldNode
	// ArrayNode is items of a list by their indices.
	ArrayNode = jsonpath.ArrayNode
	// FilterNode is items of a list for which a comparison holds.
	FilterNode = jsonpath.FilterNode
	// WildcardNode is all fields or items.
	WildcardNode = jsonpath.WildcardNode
	// RecursiveNode is a value with all that is in it.
	RecursiveNode = jsonpath.RecursiveNode
	// UnionNode is what several paths find.
	UnionNode = jsonpath.UnionNode
)

// ParseTemplate returns the parts of a JSONPath template as kubectl takes it: paths in
// braces, and text around them.
//
// All paths that others write come through here, as the parser calls itself for each
// character: a text of a few megabytes overflows the stack, and that ends the process.
func ParseTemplate(text string) ([]Node, error) {
	if len(text) > TemplateBytesMax {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed: use a shorter path", len(text), TemplateBytesMax)
	}
	parsed, err := jsonpath.Parse("template", text)
	if err != nil {
		return nil, err // the caller names the path
	}
	return parsed.Root.Nodes, nil
}
