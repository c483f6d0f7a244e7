// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// namespace follows the API of v1: the phase is Active or Terminating.
func namespace(object map[string]any) Health {
	switch fields.String(object, "status", "phase") {
	case "Active":
		return healthy("NamespaceActive", "The namespace is active.")
	case "Terminating":
		return namespaceGoing(object)
	}
	return progressing("NotObserved", "The namespace has no phase yet.")
}

// namespaceGoing says what the deletion waits for, which the namespace's
// conditions tell.
func namespaceGoing(object map[string]any) Health {
	var texts []string
	for _, kind := range []string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure",
		"NamespaceContentRemaining", "NamespaceFinalizersRemaining",
	} {
		if c := fields.ConditionOf(object, kind); c.True() && c.Message != "" {
			texts = append(texts, strings.TrimSuffix(c.Message, "."))
		}
	}
	return Health{Terminating, "Deleting", because("The namespace and what is in it are being deleted", strings.Join(texts, "; "))}
}
