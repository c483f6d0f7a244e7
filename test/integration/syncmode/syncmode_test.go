// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package syncmode tests that a cluster can change between Pull and Push, with
// the hub's controllers, both agents and their rights, on real API servers.
package syncmode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/syncmode/harness"
)

func TestAClusterChangesBetweenPullAndPushWithAllThatRunsOnIt(t *testing.T) {
	l := harness.NewLab(t, servers)
	l.StartPull()
	l.StartPush()
	l.CreateJoined(nil)
	l.MayUseWorks(true)
	for _, name := range []string{"stays", "changes", "goes"} {
		l.CreateOnHub(&workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: harness.Cluster, Name: name},
			Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{harness.Manifest(name, "1")}}},
		})
	}
	for _, name := range []string{"stays", "changes", "goes"} {
		l.IsDelivered(name, "1")
	}
	before := l.MarksOfObjects()
	l.AreOwnedBy(harness.Klusterlet, 3)

	// To Push: the agent on the hub takes over, and touches nothing.
	secret := l.AgentSecret()
	connection := l.ApplyConnection(fleetv1alpha1.SyncModePush)
	l.MayUseWorks(false)
	l.AreOwnedBy(string(connection.UID), 3)
	if diff := cmp.Diff(before, l.MarksOfObjects()); diff != "" {
		t.Errorf("going to Push changed objects on the member (-before +after):\n%s", diff)
	}
	l.ChangeWork("changes", "2")
	l.IsDelivered("changes", "2")
	l.RemoveWork("goes")
	l.IsRenewed(secret)

	// And back, likewise.
	before = l.MarksOfObjects()
	l.ApplyConnection(fleetv1alpha1.SyncModePull)
	l.MayUseWorks(true)
	l.AreOwnedBy(harness.Klusterlet, 2)
	if diff := cmp.Diff(before, l.MarksOfObjects()); diff != "" {
		t.Errorf("going back to Pull changed objects on the member (-before +after):\n%s", diff)
	}
	l.ChangeWork("stays", "3")
	l.IsDelivered("stays", "3")
	l.RemoveWork("stays")
	l.RemoveWork("changes")
	l.AreOwnedBy(harness.Klusterlet, 0)
}
