// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EventsAbout selects the Events in a namespace that are about an object which is in none.
// Recorders put them into metav1.NamespaceDefault. An Event in another namespace is the
// word of whoever may record some there: the agent of a cluster can record in the namespace
// of its cluster what it likes about another one.
func EventsAbout(kind, name, namespace string) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name},
	}
}

// LastSeen returns when what an Event tells of last happened: the more it says of that
// itself, the better.
func LastSeen(e *corev1.Event) time.Time {
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time}
	if e.Series != nil {
		times = append([]time.Time{e.Series.LastObservedTime.Time}, times...)
	}
	for _, at := range times {
		if !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}
