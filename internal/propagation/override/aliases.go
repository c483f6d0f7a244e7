// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// expandedBytesMax is how long a YAML document may become, in bytes, when what its
// aliases stand for is written in their place: no longer than what an object can hold
// (etcd refuses more than 1.5 MiB by default).
const expandedBytesMax = 1 << 20

// checkAliases refuses a YAML document that is short, but long as JSON, which has no
// aliases: a text of 1 MiB can stand for terabytes. That has to be known before anything
// is expanded. Nothing here takes longer, or more memory, than the text is long.
func checkAliases(text string) error {
	if !strings.Contains(text, "*") {
		return nil
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal([]byte(text), document); err != nil {
		return fmt.Errorf("the string is not YAML: %w", err)
	}
	if (expansion{}).expandedBytes(document) > expandedBytesMax {
		return fmt.Errorf("with its aliases written out the YAML has more than %d bytes: write out what they stand for, as far as it is needed, or replace the string as a whole with plaintext", expandedBytesMax)
	}
	return nil
}

// expansion has the length of what aliases stand for, by their anchors.
type expansion map[*yaml.Node]int

// expandedBytes returns at least how long a node is in JSON with all aliases written out, or
// something beyond expandedBytesMax.
func (e expansion) expandedBytes(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		return e.anchored(node.Alias)
	}
	sum := len(node.Value) + 1 // with what stands between it and the next
	for _, child := range node.Content {
		if sum += e.expandedBytes(child); sum > expandedBytesMax {
			return expandedBytesMax + 1
		}
	}
	return sum
}

// anchored does so for what an alias stands for, once.
func (e expansion) anchored(anchor *yaml.Node) int {
	if known, ok := e[anchor]; ok {
		return known
	}
	e[anchor] = expandedBytesMax + 1 // for an alias within: what has itself in it has no end
	e[anchor] = e.expandedBytes(anchor)
	return e[anchor]
}
