// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamlalias refuses YAML with aliases where it is not trusted. Clients and servers
// make JSON of YAML, and write in the place of an alias what it stands for: a text of a
// megabyte may become terabytes.
package yamlalias

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// RefuseAliases returns an error if a text has aliases, or may have some and is not valid YAML. It
// takes up some hundred times the length of the text for a moment, so the caller has to
// bound that first.
func RefuseAliases(text []byte) error {
	if !bytes.Contains(text, []byte("*")) {
		return nil
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(text, document); err != nil {
		return fmt.Errorf("it is not YAML: %w", err)
	}
	if hasAlias(document) {
		return errors.New("it has aliases of YAML (*name): write out what they stand for")
	}
	return nil
}

func hasAlias(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode {
		return true
	}
	for _, child := range node.Content {
		if hasAlias(child) {
			return true
		}
	}
	return false
}
