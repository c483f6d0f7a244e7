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

// refused reads why the hub last did not let the policy claim the object that would, if
// none has.
func (r Reader) refused(ctx context.Context, f *Facts) error {
	by, selected := f.deciding()
	if !selected || f.claimedBy() != nil {
		return nil
	}
	namespace := cmp.Or(f.Ref.Namespace, metav1.NamespaceDefault)
	events, err := hub.List(ctx, r.Client, func(l *corev1.EventList) []corev1.Event { return l.Items }, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.uid": string(f.Template.GetUID()), "reason": claims.EventFailed})
	for i := range events {
		e := &events[i]
		if refuses(e, by.Policy) && (f.Refused == nil || hub.LastSeen(f.Refused).Before(hub.LastSeen(e))) {
			f.Refused = e
		}
	}
	return f.unread(err, "Events of namespace "+namespace, "whether the hub lets the policy claim the object is not said here")
}

// refuses reports whether an Event says that a policy may not claim the object.
func refuses(e *corev1.Event, policy Policy) bool {
	about := e.Related
	return about != nil && about.Kind == policy.Kind && about.Namespace == policy.Namespace && about.Name == policy.Name
}

// refusal says why the hub does not let the policy claim the object, "" if that is not known.
// The reason comes last: its words are those of whoever runs webhooks, or may record Events.
func (t *Trace) refusal(f *Facts) string {
	if f.Refused == nil {
		return ""
	}
	by := Policy{Kind: f.Refused.Related.Kind, Namespace: f.Refused.Related.Namespace, Name: f.Refused.Related.Name}
	return fmt.Sprintf("%s selects it, but the hub does not let it claim the object, which is tried again every minute. An Event of %s says: %s",
		by, t.ago(hub.LastSeen(f.Refused)), columns.OneLine(f.Refused.Message))
}
