// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonpath

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/client-go/util/jsonpath"
)

const (
	// PathBytesMax is the length of a path in bytes.
	PathBytesMax = 4096
	// depthMax is how deep a path of ".." goes into an object.
	depthMax = 128
	// hitsMax is the number of values that a path may have at any of its steps.
	hitsMax = 100_000
	// shownBytesMax is how much of a path a message shows.
	shownBytesMax = 200
)

// Path is a JSONPath as kubectl takes it, without the braces. It is parsed by
// the parser that kubectl has, and evaluated here: in the same order each time
// (the keys of an object in alphabetical order), and within limits.
type Path struct {
	text string
	root *jsonpath.ListNode
}

// ParsePath reads a path such as .status.phase. Its errors name the path.
func ParsePath(text string) (*Path, error) {
	shown := shortenPath(text)
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("the path is empty")
	case len(text) > PathBytesMax:
		return nil, fmt.Errorf("path %s is longer than %d bytes", shown, PathBytesMax)
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		return nil, fmt.Errorf("path %s: leave out the braces", shown)
	}
	parts, err := ParseTemplate("{" + text + "}")
	if err != nil {
		return nil, fmt.Errorf("path %s is not a JSONPath: %w", shown, err)
	}
	if len(parts) != 1 {
		return nil, fmt.Errorf("path %s: there must be one path, without text or braces around it", shown)
	}
	root, ok := parts[0].(*jsonpath.ListNode)
	if !ok {
		return nil, fmt.Errorf("path %s is not a JSONPath", shown)
	}
	if err := checkNodes(root); err != nil {
		return nil, fmt.Errorf("path %s: %w", shown, err)
	}
	return &Path{text: text, root: root}, nil
}

// String returns the path, cut if it is long.
func (p *Path) String() string { return shortenPath(p.text) }

func shortenPath(text string) string {
	if len(text) <= shownBytesMax {
		return text
	}
	cut := shownBytesMax
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// checkNodes finds what the parser takes and a path cannot have.
func checkNodes(list *jsonpath.ListNode) error {
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *jsonpath.IdentifierNode:
			if node.Name == "range" || node.Name == "end" {
				return errors.New("range and end are not possible here; use [*]")
			}
			return fmt.Errorf("%q is not understood; fields begin with a dot", node.Name)
		case *jsonpath.ListNode:
			if err := checkNodes(node); err != nil {
				return err
			}
		case *jsonpath.UnionNode:
			for _, part := range node.Nodes {
				if err := checkNodes(part); err != nil {
					return err
				}
			}
		case *jsonpath.FilterNode:
			switch node.Operator {
			case "exists", "==", "!=", "<", "<=", ">", ">=":
			default:
				return fmt.Errorf("%q does not compare; use ==, !=, <, <=, > or >=", node.Operator)
			}
			if err := errors.Join(checkNodes(node.Left), checkNodes(node.Right)); err != nil {
				return err
			}
		}
	}
	return nil
}
