// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// limit sets what the works of the namespace may take up.
func (h hub) limit(bytes string) {
	h.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}
	h.MustPatch(namespace, func() { namespace.Annotations = map[string]string{fleetv1alpha1.AnnotationWorkBytesMax: bytes} })
}

// TestANamespaceThatIsFullSendsNothingMore has a tenant send more to its clusters than the works
// of its namespace may have.
func TestANamespaceThatIsFullSendsNothingMore(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.limit("5Ki") // there is room for two
	h.choose("p", []string{"c1", "c2", "c3", "c4"})
	set := h.set("v1", "p", all)
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonNamespaceFull, "2 clusters", `"`+h.namespace+`"`, fleetv1alpha1.AnnotationWorkBytesMax)
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing)
	if works := h.listed(set); len(works) != 2 {
		h.Errorf("%d clusters have works, and there is room for two", len(works))
	}
	h.UntilRight(func() string {
		list := &eventsv1.EventList{}
		if err := h.List(t.Context(), list, client.InNamespace(h.namespace)); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == workv1alpha1.ReasonNamespaceFull && strings.Contains(e.Note, fleetv1alpha1.AnnotationWorkBytesMax) {
				return ""
			}
		}
		return fmt.Sprintf("none of %d Events has reason %s", len(list.Items), workv1alpha1.ReasonNamespaceFull)
	})

	h.limit("1Gi")
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonAsExpected)

	// A lower limit takes nothing from clusters, but nothing grows.
	h.limit("0")
	h.turn(set, "v2")
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2", "c4=v2")
	h.turn(set, "longer")
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonNamespaceFull, "4 clusters")
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2", "c4=v2")

	// Nothing keeps works from going.
	h.choose("p", []string{"c1"})
	h.delivered(set, "c1=v2")
}
