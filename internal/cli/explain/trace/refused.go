// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// readRefusal reads why the hub last did not let the policy claim the object that would, if
// none has.
func (r Reader) readRefusal(ctx context.Context, f *ObjectFacts) error {
	by := f.decidingPolicy()
	if by == nil || f.claimedBy() != nil {
		return nil
	}
	namespace := cmp.Or(f.Ref.Namespace, metav1.NamespaceDefault)
	events, err := hub.ListAllPages(ctx, r.Client, func(l *corev1.EventList) []corev1.Event { return l.Items }, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.uid": string(f.Template.GetUID()), "reason": claims.EventFailed})
	for i := range events {
		e := &events[i]
		if isRefusalEvent(e, identifyPolicy(by)) && (f.Refused == nil || hub.LastSeen(f.Refused).Before(hub.LastSeen(e))) {
			f.Refused = e
		}
	}
	return f.recordUnread(err, "Events of namespace "+namespace, "whether the hub lets the policy claim the object is not shown here")
}

// isRefusalEvent reports whether an Event says that a policy may not claim the object.
func isRefusalEvent(e *corev1.Event, policy Policy) bool {
	about := e.Related
	return about != nil && about.Kind == policy.Kind && about.Namespace == policy.Namespace && about.Name == policy.Name
}

// refusalNote says why the hub does not let the policy claim the object, "" if that is not known.
// The reason comes last: its words are those of whoever runs webhooks, or may record Events.
func (t *Trace) refusalNote(f *ObjectFacts) string {
	if f.Refused == nil {
		return ""
	}
	by := Policy{Kind: f.Refused.Related.Kind, Namespace: f.Refused.Related.Namespace, Name: f.Refused.Related.Name}
	return fmt.Sprintf("%s selects it, but the hub does not let it claim the object, which is tried again every minute. An Event of %s says: %s",
		by, t.formatAge(hub.LastSeen(f.Refused)), columns.OneLine(f.Refused.Message))
}
