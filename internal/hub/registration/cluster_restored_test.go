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
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestARestoredHubTellsClustersThatJoinWhatItForgot has clusters join a hub that was restored: one
// that it may have forgotten is told what else it forgot before its agent may begin.
func TestARestoredHubTellsClustersThatJoinWhatItForgot(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const versions = "5-1000005"
	publish := func(value string) {
		set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterv1.GlobalClusterSet}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, fleetv1alpha1.AnnotationRestored, value)
		if err := h.Client.Patch(t.Context(), set, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
	told := func(name string) string {
		h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
		mc := &clusterv1.ManagedCluster{}
		if err := h.Client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			t.Fatal(err)
		}
		return mc.Annotations[fleetv1alpha1.AnnotationRestored]
	}
	publish(`"` + versions + `"`)
	h.CreateObjects(t, hub.NewCluster("forgotten", true))
	if got := told("forgotten"); got != versions {
		t.Errorf("a cluster that joins a restored hub is told %q, want %q", got, versions)
	}
	// What somebody confirmed does not come back.
	h.PatchCluster(t, "forgotten", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"hubAcceptsClient":false}}`, fleetv1alpha1.AnnotationRestored))
	h.IsAccepted(t, "forgotten", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
	h.PatchCluster(t, "forgotten", `{"spec":{"hubAcceptsClient":true}}`)
	if got := told("forgotten"); got != "" {
		t.Errorf("a cluster for which somebody confirmed is told %q again", got)
	}
	publish("null")
	h.CreateObjects(t, hub.NewCluster("later", true))
	if got := told("later"); got != "" {
		t.Errorf("a cluster is told %q after all was confirmed", got)
	}
	removeClusters(t, h, "forgotten", "later")
}
