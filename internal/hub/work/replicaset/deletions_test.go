// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// TestDeletionsOfReplicaSetsWaitForTheirTurn has a tenant delete works that count as 4 MiB each, more than
// may be written at once. What another tenant deletes meanwhile goes at once.
func TestDeletionsOfReplicaSetsWaitForTheirTurn(t *testing.T) {
	h := start(t)
	h.run(t, interceptor.Funcs{})
	h.serve(t)
	other := h
	h.namespace, other.namespace = "shop", "bank"
	var names []string
	for i := range fleetSize {
		names = append(names, fmt.Sprintf("m%03d", i))
	}
	h.clusters(names...)
	large, small := h.tenant(names), other.tenant(names[:2])
	for _, w := range h.listed(large) {
		h.MustPatch(&w, func() { metav1.SetMetaDataAnnotation(&w.ObjectMeta, allowance.AnnotationBytes, fmt.Sprint(4<<20)) })
	}
	other.choose("p", names[:3]) // the controller has seen the above when it says what became of this
	other.says(small, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete, "3 of 3")

	h.choose("p", names[1:]) // one is in the room that there is at once
	h.UntilRight(func() string {
		if n := h.alive(large); n != fleetSize-1 {
			return fmt.Sprintf("%d clusters have works", n)
		}
		return ""
	})
	h.choose("p", names[:0])
	h.says(large, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonNamespaceThrottled, `"shop"`)
	h.MustDelete(large)
	h.UntilRight(func() string { // 64 of 4 MiB, and 8 more in each half of a minute
		if n := h.alive(large); n > fleetSize/2 || n == 0 {
			return fmt.Sprintf("%d of %d works are not being deleted", n, fleetSize)
		}
		return ""
	})
	h.says(large, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonNamespaceThrottled, `"shop"`)
	other.MustDelete(small)
	other.UntilRight(func() string { return other.gone(small) })
	if h.alive(large) == 0 {
		t.Error("the works of the other tenant were not deleted before all of these")
	}

	h.limit("64Gi") // of which a quarter may be written at once
	h.UntilRight(func() string { return h.gone(large) })
	h.delivered(large)
}

// tenant creates the namespace, with a replica set whose works have no manifests, so that they count for as
// many bytes as the test says.
func (h hub) tenant(clusters []string) *workv1alpha1.ManifestWorkReplicaSet {
	h.Helper()
	h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
	h.choose("p", clusters)
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "web"}}
	set.Spec.ManifestWorkTemplate = workv1.ManifestWorkSpec{}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p", RolloutStrategy: all}}
	h.MustCreate(set)
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
	return set
}

// alive counts the works of a replica set that are not being deleted.
func (h hub) alive(set *workv1alpha1.ManifestWorkReplicaSet) (n int) {
	h.Helper()
	for _, w := range h.listed(set) {
		if w.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}
