// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// TestNobodyHasAllWorkers has the controller look at the replica sets of one namespace, each
// of which takes until the end of the test, and then at one of another.
func TestNobodyHasAllWorkers(t *testing.T) {
	const most = 6 // of 8 workers
	h := start(t)
	var slow atomic.Int64
	h.run(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isSet := object.(*workv1alpha1.ManifestWorkReplicaSet); isSet && key.Namespace == "slow" {
				slow.Add(1)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	h.serve(t)
	h.clusters("c1")
	h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "slow"}})
	for n := range 20 {
		set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "slow", Name: fmt.Sprintf("web-%d", n)}}
		set.Spec.ManifestWorkTemplate = manifests("v1")
		set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p", RolloutStrategy: all}}
		h.MustCreate(set)
	}
	h.UntilRight(func() string {
		if n := slow.Load(); n < most {
			return fmt.Sprintf("%d workers look at the namespace, want %d", n, most)
		}
		return ""
	})
	h.namespace = "default"
	h.choose("p", []string{"c1"})
	h.delivered(h.set("v1", "p", all), "c1=v1")
	if n := slow.Load(); n != most {
		t.Errorf("%d workers look at one namespace, want %d", n, most)
	}
}
