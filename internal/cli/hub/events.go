// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import "sigs.k8s.io/controller-runtime/pkg/client"

// EventsAbout selects the Events in a namespace that are about an object which is in none.
// Recorders put them into metav1.NamespaceDefault. An Event in another namespace is the
// word of whoever may record some there: the agent of a cluster can record in the namespace
// of its cluster what it likes about another one.
func EventsAbout(kind, name, namespace string) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name},
	}
}
