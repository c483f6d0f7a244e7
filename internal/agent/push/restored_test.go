// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestWhatARestoredHubForgotStaysOnAPushCluster(t *testing.T) {
	l := newLab(t)
	l.start(local(), work.PartOptions{EvictionGracePeriod: time.Millisecond})
	l.accept("c1")
	l.secret("c1", l.token, l.member.config.CAData)
	l.connection("c1", l.member.config.Host)
	l.work("c1", "kept")
	l.delivered("c1", "kept")

	// While the agent is not let in, the hub forgets the work and says so.
	l.accepts("c1", false)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonNotAccepted)
	forgotten := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "kept"}}
	expect.NoError(t, l.hub.client.Patch(t.Context(), forgotten, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	expect.NoError(t, l.hub.client.Delete(t.Context(), forgotten))
	l.restored("c1", `"1-1000000000"`)
	l.accepts("c1", true)
	l.missing("c1", metav1.ConditionTrue)
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	expect.NoError(t, l.member.client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept))

	// Somebody confirms.
	l.restored("c1", "null")
	l.missing("c1", metav1.ConditionFalse)
	l.eventually("the object to go", func(ctx context.Context) (string, bool) {
		err := l.member.client.Get(ctx, client.ObjectKeyFromObject(kept), kept)
		return fmt.Sprint(err), apierrors.IsNotFound(err)
	})
}

// restored sets the annotation of a ManagedCluster to a JSON value.
func (l *lab) restored(cluster, value string) {
	l.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, fleetv1alpha1.AnnotationRestored, value)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	expect.NoError(l.t, l.hub.client.Patch(l.t.Context(), mc, client.RawPatch("application/merge-patch+json", patch)))
}

// missing waits until the condition WorksMissing has the status.
func (l *lab) missing(cluster string, status metav1.ConditionStatus) {
	l.t.Helper()
	l.eventually("WorksMissing to be "+string(status), func(ctx context.Context) (string, bool) {
		mc := &clusterv1.ManagedCluster{}
		expect.NoError(l.t, l.hub.client.Get(ctx, client.ObjectKey{Name: cluster}, mc))
		return fmt.Sprint(mc.Status.Conditions),
			meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, clusterv1.ManagedClusterConditionWorksMissing, status)
	})
}
