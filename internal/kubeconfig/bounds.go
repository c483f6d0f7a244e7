// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// keyBytesMax is how long a client key may be: one of RSA with 8192 bits has 6.4 KB in PEM.
// Whoever may write the kubeconfig chooses the key, and what is computed of a longer one
// takes hours, in which the process connects to nobody else.
const keyBytesMax = 8 << 10

// checkText refuses a kubeconfig with aliases, which no tool writes: as JSON, of which
// clients read it, what they stand for is written in their place, and a text of a megabyte
// may become terabytes.
func checkText(data []byte) error {
	if !bytes.Contains(data, []byte("*")) {
		return nil
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(data, document); err != nil {
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

// checkKey refuses a client key that takes too long to be used.
func checkKey(key []byte) error {
	if len(key) > keyBytesMax {
		return fmt.Errorf("its client-key has %d bytes, more than %d: use an RSA key of at most 8192 bits, or one on an elliptic curve", len(key), keyBytesMax)
	}
	return nil
}
