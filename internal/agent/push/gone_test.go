// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/moods"
)

func TestWhatAProxyDoesNotFindIsNotForgotten(t *testing.T) {
	const works = 3
	l := newLab(t)
	l.start(local(), work.PartOptions{})
	for cluster, c := range map[string]struct {
		mood int32
		says string // the reason of condition Connected meanwhile
	}{
		"gone": {moods.Gone, fleetv1alpha1.ClusterConnectionReasonUnreachable},
		"half": {moods.HalfGone, fleetv1alpha1.ClusterConnectionReasonConnected},
	} {
		front := l.join(cluster)
		l.says(cluster, connected, fleetv1alpha1.ClusterConnectionReasonConnected)
		for i := range works {
			l.works(cluster, fmt.Sprintf("%s-%d", cluster, i))
		}

		// Everything is deleted while the proxy finds nothing.
		front.Mood.Store(c.mood)
		front.CloseClientConnections() // watches begin anew, and are answered like all else
		expect.NoError(t, l.hub.client.DeleteAllOf(t.Context(), &workv1.ManifestWork{}, client.InNamespace(cluster)))
		l.eventually("the proxy to answer 404", func(context.Context) (string, bool) {
			n := front.Denied.Load()
			return fmt.Sprint(n), n > 5*works
		})
		l.says(cluster, connected, c.says)
		l.left(cluster, works)

		// Back again, it has nothing left over.
		front.Mood.Store(moods.Well)
		front.CloseClientConnections()
		l.eventually("all works of "+cluster+" to be gone", func(ctx context.Context) (string, bool) {
			list := &workv1.ManifestWorkList{}
			expect.NoError(t, l.hub.client.List(ctx, list, client.InNamespace(cluster)))
			return fmt.Sprint(len(list.Items)), len(list.Items) == 0
		})
		objects := &corev1.ConfigMapList{}
		expect.NoError(t, l.member.client.List(t.Context(), objects, client.MatchingLabels{workv1.LabelManaged: "true"}))
		records := &workv1.AppliedManifestWorkList{}
		expect.NoError(t, l.member.client.List(t.Context(), records))
		if len(objects.Items)+len(records.Items) > 0 {
			t.Errorf("%s: the works are gone, and the member still has %d objects and %d AppliedManifestWorks", cluster, len(objects.Items), len(records.Items))
		}
		expect.NoError(t, l.hub.client.Delete(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: cluster}}))
	}
}

// left expects that the hub still has the works that are being deleted.
func (l *lab) left(cluster string, want int) {
	l.t.Helper()
	list := &workv1.ManifestWorkList{}
	expect.NoError(l.t, l.hub.client.List(l.t.Context(), list, client.InNamespace(cluster)))
	if len(list.Items) != want {
		l.t.Errorf("%s: of %d works %d are left although nobody could remove what they brought", cluster, want, len(list.Items))
	}
}
