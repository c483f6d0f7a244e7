// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strings"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// namespaceHealth follows the API of v1: the phase is Active or Terminating.
func namespaceHealth(object map[string]any) health.Health {
	switch fields.String(object, "status", "phase") {
	case "Active":
		return health.Healthy.WithReason("NamespaceActive", "The namespace is active.")
	case "Terminating":
		return namespaceDeletion(object)
	}
	return health.Progressing.WithReason("NotObserved", "The namespace has no phase yet.")
}

// namespaceDeletion says what the deletion waits for, which the namespace's
// conditions tell.
func namespaceDeletion(object map[string]any) health.Health {
	var texts []string
	for _, kind := range []string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure",
		"NamespaceContentRemaining", "NamespaceFinalizersRemaining",
	} {
		if c := fields.ConditionOf(object, kind); c.True() && c.Message != "" {
			texts = append(texts, strings.TrimSuffix(c.Message, "."))
		}
	}
	return health.Terminating.WithReason("Deleting", "%s", health.SentenceWithCause("The namespace and its content are being deleted", strings.Join(texts, "; ")))
}
