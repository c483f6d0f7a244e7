// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// warned has clusters join a hub that was restored: one that it may have forgotten
// is told what else it forgot before its agent may begin.
func warned(t *testing.T, h *hub) {
	const versions = "5-1000005"
	publish := func(value string) {
		set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterv1.GlobalClusterSet}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, fleetv1alpha1.AnnotationRestored, value)
		if err := h.client.Patch(t.Context(), set, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
	told := func(name string) string {
		h.accepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			t.Fatal(err)
		}
		return mc.Annotations[fleetv1alpha1.AnnotationRestored]
	}
	publish(`"` + versions + `"`)
	h.create(t, cluster("forgotten", true))
	if got := told("forgotten"); got != versions {
		t.Errorf("a cluster that joins a restored hub is told %q, want %q", got, versions)
	}
	// What somebody confirmed does not come back.
	h.patch(t, "forgotten", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"hubAcceptsClient":false}}`, fleetv1alpha1.AnnotationRestored))
	h.accepted(t, "forgotten", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
	h.patch(t, "forgotten", `{"spec":{"hubAcceptsClient":true}}`)
	if got := told("forgotten"); got != "" {
		t.Errorf("a cluster for which somebody confirmed is told %q again", got)
	}
	publish("null")
	h.create(t, cluster("later", true))
	if got := told("later"); got != "" {
		t.Errorf("a cluster is told %q after all was confirmed", got)
	}
	for _, name := range []string{"forgotten", "later"} {
		if err := h.client.Delete(t.Context(), cluster(name, false)); err != nil {
			t.Fatal(err)
		}
		h.gone(t, cluster(name, false))
	}
}
