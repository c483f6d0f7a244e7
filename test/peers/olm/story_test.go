// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package olm installs, upgrades and removes both operators with OLM itself, on
// clusters of the lab.
package olm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/peers/olm/harness"
)

const (
	agentNamespace = "open-cluster-management-agent"
	hubNamespace   = "open-cluster-management-hub"
	// member is the name in the example of the Klusterlet.
	member = "cluster1"
)

// The objects of users.
var (
	clusterManager = []string{"clustermanager", "cluster-manager"}
	klusterlet     = []string{"klusterlet", "klusterlet"}
	managedCluster = []string{"managedcluster", member}
	manifestWork   = []string{"-n", member, "manifestwork", "hello"}
)

// TestOLM is the life of both operators with OLM, from the catalog to what is
// left after the removal.
func TestOLM(t *testing.T) {
	lab := harness.NewLab(t)
	hub, spoke := lab.Hub(), lab.Member()
	harness.DiagnoseFailure(t, hub, spoke)
	shelf := harness.NewBundleShelf(t, lab)
	platform := harness.NewPlatform(t, shelf)
	platform.InstallPlatform(t, hub, spoke)
	lab.Say("OLM %s runs on both", platform.Version)

	catalogs := shelf.LoadImages(shelf.MakeCatalog(harness.First), shelf.MakeCatalog(harness.First, harness.Next))
	for c, packageName := range map[harness.Cluster]string{hub: harness.HubPackage, spoke: harness.MemberPackage} {
		c.Apply(t, harness.CatalogSource(catalogs[0]))
		c.Apply(t, shelf.SuggestedNamespace(packageName))
		c.Apply(t, harness.OperatorGroup(harness.OperatorNamespace))
		c.Apply(t, harness.SubscriptionManifest(harness.OperatorNamespace, packageName))
	}
	installed(t, hub, harness.HubPackage, harness.First)
	installed(t, spoke, harness.MemberPackage, harness.First)

	join(t, hub, spoke)
	deliver(t, hub)
	before := look(t, hub, spoke)

	release := func() {}
	if !testing.Short() {
		release = busy(t, spoke)
	}
	for _, c := range []harness.Cluster{hub, spoke} {
		c.Apply(t, harness.CatalogSource(catalogs[1]))
	}
	lab.Say("the catalog has version %s", harness.Next)
	installed(t, hub, harness.HubPackage, harness.Next)
	if !testing.Short() {
		heldBack(t, spoke)
	}
	release()
	installed(t, spoke, harness.MemberPackage, harness.Next)
	wantUpgraded(t, before, hub, spoke)

	if !testing.Short() {
		refusedBesideUs(t, hub)
	}
	leave(t, hub, spoke)
	lab.Say("all is as expected")
}

func csvName(packageName, version string) string { return packageName + ".v" + version }

func csv(packageName, version string) []string {
	return []string{"-n", harness.OperatorNamespace, "clusterserviceversion", csvName(packageName, version)}
}

// installed waits until OLM has installed the version, and nothing else of the package.
func installed(t *testing.T, c harness.Cluster, packageName, version string) {
	t.Helper()
	c.WaitFor(t, "{.status.phase}", "Succeeded", csv(packageName, version)...)
	harness.Eventually(t, func() error {
		if got, want := c.NamesWith(t, []string{packageName}, "-n", harness.OperatorNamespace, "clusterserviceversions"), []string{csvName(packageName, version)}; !slices.Equal(got, want) {
			return fmt.Errorf("on %s there are %q, want %q", c.Name, got, want)
		}
		return nil
	})
	c.Say("%s is Succeeded", csvName(packageName, version))
}

// join makes a hub and a member of the examples.
func join(t *testing.T, hub, spoke harness.Cluster) {
	t.Helper()
	hub.ApplyExamples(t, csv(harness.HubPackage, harness.First)...)
	healthy(t, hub)
	hub.Say("the example of the ClusterManager is a hub")

	credential := filepath.Join(t.TempDir(), "hub-kubeconfig")
	hub.Lab.RunMake(t, "hub-kubeconfig", "HUB_CONTEXT="+hub.Name, "HUB_KUBECONFIG="+credential)
	spoke.Kubectl(t, "create", "namespace", agentNamespace)
	spoke.Kubectl(t, "-n", agentNamespace, "create", "secret", "generic", "bootstrap-hub-kubeconfig", "--from-file=kubeconfig="+credential)
	spoke.ApplyExamples(t, csv(harness.MemberPackage, harness.First)...)

	request := ""
	harness.Eventually(t, func() error {
		request = hub.Kubectl(t, "get", "csr", "-l", "open-cluster-management.io/cluster-name="+member, "-o", "name")
		if request == "" {
			return fmt.Errorf("%s has not asked to join", member)
		}
		return nil
	})
	hub.Kubectl(t, "certificate", "approve", request)
	hub.Kubectl(t, "patch", "managedcluster", member, "--type=merge", "-p", `{"spec":{"hubAcceptsClient":true}}`)
	hub.WaitCondition(t, "ManagedClusterJoined", "True", managedCluster...)
	hub.WaitCondition(t, "ManagedClusterConditionAvailable", "True", managedCluster...)
	spoke.Say("the example of the Klusterlet has joined as %s", member)
}

func healthy(t *testing.T, hub harness.Cluster) {
	t.Helper()
	hub.WaitCondition(t, "Applied", "True", clusterManager...)
	hub.WaitCondition(t, "Progressing", "False", clusterManager...)
	hub.WaitCondition(t, "HubRegistrationDegraded", "False", clusterManager...)
}

// deliver sends a Deployment and a ConfigMap to the member.
func deliver(t *testing.T, hub harness.Cluster) {
	t.Helper()
	hub.Apply(t, `apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: hello, namespace: `+member+`}
spec:
  workload:
    manifests:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: hello, namespace: default}
      data: {greeting: hello}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: hello, namespace: default}
      spec:
        selector: {matchLabels: {app: hello}}
        template:
          metadata: {labels: {app: hello}}
          spec: {containers: [{name: hello, image: "lab/hello:1"}]}
`)
	hub.WaitCondition(t, "Applied", "True", manifestWork...)
	hub.WaitCondition(t, "Available", "True", manifestWork...)
	hub.Say("the ManifestWork is Applied and Available")
}

// busy lets the removal of another Klusterlet hang, and returns what ends that.
func busy(t *testing.T, spoke harness.Cluster) (release func()) {
	t.Helper()
	const paused = "operator.open-cluster-management.io/paused"
	spare := []string{"klusterlet", "spare"}
	spoke.Apply(t, `apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata: {name: spare}
spec: {clusterName: spare, namespace: open-cluster-management-spare, deployOption: {mode: Singleton}}
`)
	spoke.WaitCondition(t, "Applied", "True", spare...)
	spoke.Kubectl(t, "annotate", "klusterlet", "spare", paused+"=true")
	spoke.WaitCondition(t, "Paused", "True", spare...)
	spoke.Kubectl(t, "delete", "klusterlet", "spare", "--wait=false")
	condition := []string{"-n", harness.OperatorNamespace, "operatorcondition", csvName(harness.MemberPackage, harness.First)}
	harness.Eventually(t, func() error {
		if got := upgradeable(t, spoke, condition); !strings.HasPrefix(got, "False RemovingAgents") {
			return fmt.Errorf("Upgradeable is %q, want False", got)
		}
		return nil
	})
	spoke.Say("Upgradeable is False while a Klusterlet is being removed")
	return func() {
		t.Helper()
		spoke.Kubectl(t, "annotate", "klusterlet", "spare", paused+"-")
		spoke.WaitGone(t, append(spare, "--ignore-not-found")...)
		spoke.Say("that Klusterlet is gone")
	}
}

func upgradeable(t *testing.T, c harness.Cluster, condition []string) string {
	t.Helper()
	const item = `{.spec.conditions[?(@.type=="Upgradeable")]`
	return c.Get(t, item+".status} "+item+".reason}", condition...)
}

// heldBack expects the harness.Next version to wait, and the harness.First to run on.
func heldBack(t *testing.T, spoke harness.Cluster) {
	t.Helper()
	spoke.WaitFor(t, "{.status.phase} {.status.reason}", "Pending OperatorConditionNotUpgradeable", csv(harness.MemberPackage, harness.Next)...)
	if got := spoke.Get(t, "{.spec.template.spec.containers[0].image}", "-n", harness.OperatorNamespace, "deployment", "klusterlet"); !strings.HasSuffix(got, harness.First) {
		t.Errorf("the operator runs %s, want that of %s until the removal has ended", got, harness.First)
	}
	spoke.Say("%s waits: %s", csvName(harness.MemberPackage, harness.Next), spoke.Get(t, "{.status.message}", csv(harness.MemberPackage, harness.Next)...))
}
