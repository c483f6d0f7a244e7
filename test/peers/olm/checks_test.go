// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/capstan-io/capstan/test/peers/olm/harness"
)

// state is what an upgrade must not change, and what it must change once.
type state struct {
	// kept has what must stay as it is, by what it is.
	kept map[string]string
	// revisions are how often each Deployment of ours was rolled out.
	revisions map[string]string
}

// look takes down the state of everything.
func look(t *testing.T, hub, spoke harness.Cluster) state {
	t.Helper()
	s := state{kept: map[string]string{}, revisions: map[string]string{}}
	const since = `{.metadata.uid} {.metadata.generation} {.status.conditions[?(@.type=="Applied")].lastTransitionTime}`
	s.kept["the ManifestWork and since when it is Applied"] = hub.Get(t, since, manifestWork...)
	s.kept["since when the cluster is available"] = hub.Get(t, `{.metadata.uid} {.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].lastTransitionTime}`, managedCluster...)
	s.kept["the delivered ConfigMap"] = spoke.Get(t, "{.metadata.uid} {.metadata.resourceVersion}", "-n", "default", "configmap", "hello")
	s.kept["the delivered Deployment"] = spoke.Get(t, "{.metadata.uid} {.metadata.generation}", "-n", "default", "deployment", "hello")
	s.kept["the pod of the delivered Deployment"] = spoke.Get(t, "{.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}", "-n", "default", "pods", "-l", "app=hello")
	s.kept["the AppliedManifestWork"] = spoke.Get(t, "{.items[*].metadata.uid}", "appliedmanifestworks")
	s.kept["the credential of the member"] = spoke.Get(t, "{.metadata.uid}", "-n", agentNamespace, "secret", "hub-kubeconfig-secret")
	maps.Copy(s.revisions, hub.DeploymentRevisions(t, hubNamespace))
	maps.Copy(s.revisions, spoke.DeploymentRevisions(t, agentNamespace))
	return s
}

// wantUpgraded expects all Deployments to have been rolled out once, to the harness.Next
// image, and nothing else to have changed.
func wantUpgraded(t *testing.T, before state, hub, spoke harness.Cluster) {
	t.Helper()
	want := map[string]string{}
	for name := range before.revisions {
		want[name] = "2"
	}
	harness.Eventually(t, func() error {
		if got := look(t, hub, spoke).revisions; !maps.Equal(got, want) {
			return fmt.Errorf("the revisions of the Deployments are %v, want %v", got, want)
		}
		return nil
	})
	healthy(t, hub)
	spoke.Kubectl(t, "-n", agentNamespace, "rollout", "status", "deployment", "--timeout=600s")
	hub.WaitCondition(t, "ManagedClusterConditionAvailable", "True", managedCluster...)
	after := look(t, hub, spoke)
	if !maps.Equal(after.revisions, want) {
		t.Errorf("after all is settled, the revisions of the Deployments are %v, want %v", after.revisions, want)
	}
	for what, value := range before.kept {
		if after.kept[what] != value {
			t.Errorf("the upgrade changed %s: %q before, %q after", what, value, after.kept[what])
		}
	}
	// A pod that was replaced takes a moment to end.
	harness.Eventually(t, func() error {
		return errors.Join(hub.OnlyPodsOf(t, harness.Next, hubNamespace), spoke.OnlyPodsOf(t, harness.Next, agentNamespace))
	})
	hub.Lab.Say("all %d Deployments were rolled out once to %s; works, objects, pods of users and credentials are the same", len(want), harness.Next)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		hub.Lab.Say("  %s: revision %s, then %s", name, before.revisions[name], after.revisions[name])
	}
}
