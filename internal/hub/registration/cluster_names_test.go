// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestOneClusterMayHaveTwoNames is for a cluster with two Klusterlets: each has
// an agent of its own, so both names work, and only the first has the identity.
func TestOneClusterMayHaveTwoNames(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.AcceptClusters(t, is("first", "uid-1"))
	h.HasIdentity(t, "first", "uid-1")
	h.AcceptClusters(t, is("second", "uid-1"))
	if message := h.IsDuplicate(t, "second", true); !strings.Contains(message, `"first"`) {
		t.Errorf("the warning does not name the other cluster: %s", message)
	}
	h.IsDuplicate(t, "first", false)
	h.HasIdentity(t, "first", "uid-1")
	if id := h.ReadConnection(t.Context(), t, "second").Identity(); id != "" {
		t.Errorf("two clusters have the identity %s", id)
	}
	for _, check := range hub.AgentChecks("second") {
		if !h.AgentMay(t.Context(), t, "second", check) {
			t.Errorf("the agent of the second name may not do %v", check)
		}
	}

	// The push agent works for a whole cluster: a Push one has no second name.
	h.CreateObjects(t, push("pushed"))
	h.AcceptClusters(t, hub.NewCluster("pushed", true))
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"uid-2"}}`)) // as the push agent does
	if err := h.Client.Status().Patch(t.Context(), push("pushed"), status); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the controller has seen who it is", func(ctx context.Context) (bool, error) {
		connection := &fleetv1alpha1.ClusterConnection{}
		err := h.Cached.Get(ctx, client.ObjectKey{Name: "pushed"}, connection)
		return connection.Identity() == "uid-2", err
	})
	h.CreateObjects(t, is("pulled", "uid-2"))
	h.IsAccepted(t, "pulled", metav1.ConditionFalse, hub.AlreadyJoined)

	if err := h.Client.Delete(t.Context(), hub.NewCluster("first", true)); err != nil {
		t.Fatal(err)
	}
	h.IsGone(t, hub.NewCluster("first", true))
	h.IsDuplicate(t, "second", false)
	h.HasIdentity(t, "second", "uid-1")

	// A denied cluster is not there any more.
	h.AcceptClusters(t, is("third", "uid-1"))
	h.IsDuplicate(t, "third", true)
	h.PatchCluster(t, "third", `{"spec":{"hubAcceptsClient":false}}`)
	h.IsDuplicate(t, "third", false)
	removeClusters(t, h, "third", "second", "pulled", "pushed")
}
