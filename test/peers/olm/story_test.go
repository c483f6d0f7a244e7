// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	hub, spoke := cluster{hubName}, cluster{memberName}
	diagnose(t, hub, spoke)
	s := newShelf(t)
	p := newPlatform(t, s)
	p.install(t, hub, spoke)
	theLab.say("OLM %s runs on both", p.version)

	catalogs := s.images(s.catalog(first), s.catalog(first, next))
	for c, packageName := range map[cluster]string{hub: hubPackage, spoke: memberPackage} {
		c.apply(t, catalogSource(catalogs[0]))
		c.apply(t, suggestedNamespace(t, packageName))
		c.apply(t, operatorGroup(operatorNamespace))
		c.apply(t, subscription(operatorNamespace, packageName))
	}
	installed(t, hub, hubPackage, first)
	installed(t, spoke, memberPackage, first)

	join(t, hub, spoke)
	deliver(t, hub)
	before := look(t, hub, spoke)

	release := func() {}
	if !testing.Short() {
		release = busy(t, spoke)
	}
	for _, c := range []cluster{hub, spoke} {
		c.apply(t, catalogSource(catalogs[1]))
	}
	theLab.say("the catalog has version %s", next)
	installed(t, hub, hubPackage, next)
	if !testing.Short() {
		heldBack(t, spoke)
	}
	release()
	installed(t, spoke, memberPackage, next)
	wantUpgraded(t, before, hub, spoke)

	if !testing.Short() {
		refusedBesideUs(t, hub)
	}
	leave(t, hub, spoke)
	theLab.say("all is as expected")
}

func csvName(packageName, version string) string { return packageName + ".v" + version }

func csv(packageName, version string) []string {
	return []string{"-n", operatorNamespace, "clusterserviceversion", csvName(packageName, version)}
}

// suggestedNamespace is that which OLM's web console makes: the one in the bundle.
func suggestedNamespace(t *testing.T, packageName string) string {
	t.Helper()
	operator := map[string]string{hubPackage: "clustermanager", memberPackage: "klusterlet"}[packageName]
	content, err := os.ReadFile(theLab.made(filepath.Join("bundles", first, operator, "manifests", packageName+".clusterserviceversion.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return annotations(t, content)["operatorframework.io/suggested-namespace-template"]
}

// installed waits until OLM has installed the version, and nothing else of the package.
func installed(t *testing.T, c cluster, packageName, version string) {
	t.Helper()
	c.waitFor(t, "{.status.phase}", "Succeeded", csv(packageName, version)...)
	eventually(t, func() error {
		if got, want := c.names(t, []string{packageName}, "-n", operatorNamespace, "clusterserviceversions"), []string{csvName(packageName, version)}; !slices.Equal(got, want) {
			return fmt.Errorf("on %s there are %q, want %q", c.name, got, want)
		}
		return nil
	})
	theLab.say("%s: %s is Succeeded", c.name, csvName(packageName, version))
}

// examples applies the examples of a package as OLM shows them.
func examples(t *testing.T, c cluster, packageName, version string) {
	t.Helper()
	var objects []json.RawMessage
	text := c.get(t, `{.metadata.annotations.alm-examples}`, csv(packageName, version)...)
	if err := json.Unmarshal([]byte(text), &objects); err != nil || len(objects) == 0 {
		t.Fatalf("the examples of %s are %q: %v", packageName, text, err)
	}
	for _, object := range objects {
		c.apply(t, string(object))
	}
}

// join makes a hub and a member of the examples.
func join(t *testing.T, hub, spoke cluster) {
	t.Helper()
	examples(t, hub, hubPackage, first)
	healthy(t, hub)
	theLab.say("%s: the example of the ClusterManager is a hub", hub.name)

	credential := filepath.Join(t.TempDir(), "hub-kubeconfig")
	makeTarget(t, "hub-kubeconfig", "HUB_CONTEXT="+hub.name, "HUB_KUBECONFIG="+credential)
	spoke.kubectl(t, "create", "namespace", agentNamespace)
	spoke.kubectl(t, "-n", agentNamespace, "create", "secret", "generic", "bootstrap-hub-kubeconfig", "--from-file=kubeconfig="+credential)
	examples(t, spoke, memberPackage, first)

	request := ""
	eventually(t, func() error {
		request = hub.kubectl(t, "get", "csr", "-l", "open-cluster-management.io/cluster-name="+member, "-o", "name")
		if request == "" {
			return fmt.Errorf("%s has not asked to join", member)
		}
		return nil
	})
	hub.kubectl(t, "certificate", "approve", request)
	hub.kubectl(t, "patch", "managedcluster", member, "--type=merge", "-p", `{"spec":{"hubAcceptsClient":true}}`)
	hub.waitCondition(t, "ManagedClusterJoined", "True", managedCluster...)
	hub.waitCondition(t, "ManagedClusterConditionAvailable", "True", managedCluster...)
	theLab.say("%s: the example of the Klusterlet has joined as %s", spoke.name, member)
}

func healthy(t *testing.T, hub cluster) {
	t.Helper()
	hub.waitCondition(t, "Applied", "True", clusterManager...)
	hub.waitCondition(t, "Progressing", "False", clusterManager...)
	hub.waitCondition(t, "HubRegistrationDegraded", "False", clusterManager...)
}

// deliver sends a Deployment and a ConfigMap to the member.
func deliver(t *testing.T, hub cluster) {
	t.Helper()
	hub.apply(t, `apiVersion: work.open-cluster-management.io/v1
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
	hub.waitCondition(t, "Applied", "True", manifestWork...)
	hub.waitCondition(t, "Available", "True", manifestWork...)
	theLab.say("%s: the ManifestWork is Applied and Available", hub.name)
}

func makeTarget(t *testing.T, args ...string) {
	t.Helper()
	all := append([]string{"KUBECONFIG=" + theLab.kubeconfig(), "make", "--no-print-directory", "KUBECTL=" + theLab.bin("kubectl")}, args...)
	if _, err := output(t.Context(), theLab.root, "env", all...); err != nil {
		t.Fatal(err)
	}
}

// busy lets the removal of another Klusterlet hang, and returns what ends that.
func busy(t *testing.T, spoke cluster) (release func()) {
	t.Helper()
	const paused = "operator.open-cluster-management.io/paused"
	spare := []string{"klusterlet", "spare"}
	spoke.apply(t, `apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata: {name: spare}
spec: {clusterName: spare, namespace: open-cluster-management-spare, deployOption: {mode: Singleton}}
`)
	spoke.waitCondition(t, "Applied", "True", spare...)
	spoke.kubectl(t, "annotate", "klusterlet", "spare", paused+"=true")
	spoke.waitCondition(t, "Paused", "True", spare...)
	spoke.kubectl(t, "delete", "klusterlet", "spare", "--wait=false")
	condition := []string{"-n", operatorNamespace, "operatorcondition", csvName(memberPackage, first)}
	eventually(t, func() error {
		if got := upgradeable(t, spoke, condition); !strings.HasPrefix(got, "False RemovingAgents") {
			return fmt.Errorf("Upgradeable is %q, want False", got)
		}
		return nil
	})
	theLab.say("%s: Upgradeable is False while a Klusterlet is being removed", spoke.name)
	return func() {
		t.Helper()
		spoke.kubectl(t, "annotate", "klusterlet", "spare", paused+"-")
		spoke.waitGone(t, append(spare, "--ignore-not-found")...)
		theLab.say("%s: that Klusterlet is gone", spoke.name)
	}
}

func upgradeable(t *testing.T, c cluster, condition []string) string {
	t.Helper()
	const item = `{.spec.conditions[?(@.type=="Upgradeable")]`
	return c.get(t, item+".status} "+item+".reason}", condition...)
}

// heldBack expects the next version to wait, and the first to run on.
func heldBack(t *testing.T, spoke cluster) {
	t.Helper()
	spoke.waitFor(t, "{.status.phase} {.status.reason}", "Pending OperatorConditionNotUpgradeable", csv(memberPackage, next)...)
	if got := spoke.get(t, "{.spec.template.spec.containers[0].image}", "-n", operatorNamespace, "deployment", "klusterlet"); !strings.HasSuffix(got, first) {
		t.Errorf("the operator runs %s, want that of %s until the removal has ended", got, first)
	}
	theLab.say("%s: %s waits: %s", spoke.name, csvName(memberPackage, next), spoke.get(t, "{.status.message}", csv(memberPackage, next)...))
}
