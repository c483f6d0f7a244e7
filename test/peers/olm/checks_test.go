// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func annotations(t *testing.T, manifest []byte) map[string]string {
	t.Helper()
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		t.Fatal(err)
	}
	return object.Metadata.Annotations
}

// state is what an upgrade must not change, and what it must change once.
type state struct {
	// kept has what must stay as it is, by what it is.
	kept map[string]string
	// revisions are how often each Deployment of ours was rolled out.
	revisions map[string]string
}

// look takes down the state of everything.
func look(t *testing.T, hub, spoke cluster) state {
	t.Helper()
	s := state{kept: map[string]string{}, revisions: map[string]string{}}
	const since = `{.metadata.uid} {.metadata.generation} {.status.conditions[?(@.type=="Applied")].lastTransitionTime}`
	s.kept["the ManifestWork and since when it is Applied"] = hub.get(t, since, manifestWork...)
	s.kept["since when the cluster is available"] = hub.get(t, `{.metadata.uid} {.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].lastTransitionTime}`, managedCluster...)
	s.kept["the delivered ConfigMap"] = spoke.get(t, "{.metadata.uid} {.metadata.resourceVersion}", "-n", "default", "configmap", "hello")
	s.kept["the delivered Deployment"] = spoke.get(t, "{.metadata.uid} {.metadata.generation}", "-n", "default", "deployment", "hello")
	s.kept["the pod of the delivered Deployment"] = spoke.get(t, "{.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}", "-n", "default", "pods", "-l", "app=hello")
	s.kept["the AppliedManifestWork"] = spoke.get(t, "{.items[*].metadata.uid}", "appliedmanifestworks")
	s.kept["the credential of the member"] = spoke.get(t, "{.metadata.uid}", "-n", agentNamespace, "secret", "hub-kubeconfig-secret")
	maps.Copy(s.revisions, revisions(t, hub, hubNamespace))
	maps.Copy(s.revisions, revisions(t, spoke, agentNamespace))
	return s
}

// revisions returns what Kubernetes counts for each Deployment of a namespace.
func revisions(t *testing.T, c cluster, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	const item = `{range .items[*]}{.metadata.name} {.metadata.annotations.deployment\.kubernetes\.io/revision}{"\n"}{end}`
	for line := range strings.Lines(c.get(t, item, "-n", namespace, "deployments")) {
		name, revision, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[c.name+" "+name] = revision
	}
	return found
}

// onlyNextPods fails if there is a pod without the next image, or one that was restarted.
func onlyNextPods(t *testing.T, c cluster, namespace string) error {
	t.Helper()
	pods, err := c.read(t, `{range .items[*]}{.metadata.name} {.spec.containers[*].image} {.status.containerStatuses[*].restartCount}{"\n"}{end}`, "-n", namespace, "pods")
	if err != nil {
		return err
	}
	for line := range strings.Lines(pods) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !strings.HasSuffix(fields[1], ":"+next) || fields[2] != "0" {
			return fmt.Errorf("a pod on %s is %q, want the image of %s and no restarts", c.name, strings.TrimSpace(line), next)
		}
	}
	return nil
}

// wantUpgraded expects all Deployments to have been rolled out once, to the next
// image, and nothing else to have changed.
func wantUpgraded(t *testing.T, before state, hub, spoke cluster) {
	t.Helper()
	want := map[string]string{}
	for name := range before.revisions {
		want[name] = "2"
	}
	eventually(t, func() error {
		if got := look(t, hub, spoke).revisions; !maps.Equal(got, want) {
			return fmt.Errorf("the revisions of the Deployments are %v, want %v", got, want)
		}
		return nil
	})
	healthy(t, hub)
	spoke.kubectl(t, "-n", agentNamespace, "rollout", "status", "deployment", "--timeout=600s")
	hub.waitCondition(t, "ManagedClusterConditionAvailable", "True", managedCluster...)
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
	eventually(t, func() error {
		return errors.Join(onlyNextPods(t, hub, hubNamespace), onlyNextPods(t, spoke, agentNamespace))
	})
	theLab.say("all %d Deployments were rolled out once to %s; works, objects, pods of users and credentials are the same", len(want), next)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		theLab.say("  %s: revision %s, then %s", name, before.revisions[name], after.revisions[name])
	}
}
