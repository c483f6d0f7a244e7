// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/test/peers/olm/harness"
)

// refusedBesideUs expects OLM to refuse a package that owns what ours owns, in the
// namespace of ours and in one of its own.
func refusedBesideUs(t *testing.T, hub harness.Cluster) {
	t.Helper()
	hub.Apply(t, harness.SubscriptionManifest(harness.OperatorNamespace, harness.ForeignPackage))
	hub.WaitCondition(t, "ResolutionFailed", "True ConstraintsNotSatisfiable", "-n", harness.OperatorNamespace, "subscription", harness.ForeignPackage)
	hub.Say("in the same namespace, OLM resolves no %s: %s", harness.ForeignPackage,
		hub.ConditionText(t, "ResolutionFailed", "-n", harness.OperatorNamespace, "subscription", harness.ForeignPackage))
	hub.Kubectl(t, "-n", harness.OperatorNamespace, "delete", "subscription", harness.ForeignPackage)

	const other = "ocm"
	hub.Kubectl(t, "create", "namespace", other)
	hub.Apply(t, harness.OperatorGroup(other))
	hub.Apply(t, harness.SubscriptionManifest(other, harness.ForeignPackage))
	object := []string{"-n", other, "clusterserviceversion", csvName(harness.ForeignPackage, harness.First)}
	hub.WaitFor(t, "{.status.phase} {.status.reason}", "Failed InterOperatorGroupOwnerConflict", object...)
	hub.Say("in another namespace, %s fails: %s", csvName(harness.ForeignPackage, harness.First), hub.Get(t, "{.status.message}", object...))
	if got := hub.Get(t, "{.status.phase}", csv(harness.HubPackage, harness.Next)...); got != "Succeeded" {
		t.Errorf("beside the refused one, ours is %q, want Succeeded", got)
	}
	hub.Kubectl(t, "-n", other, "delete", "subscription,clusterserviceversion", "--all")
	hub.Kubectl(t, "delete", "namespace", other)
}

// leave removes everything in the order that the guide says, and looks at what is left.
func leave(t *testing.T, hub, spoke harness.Cluster) {
	t.Helper()
	hub.Kubectl(t, "delete", managedCluster[0], managedCluster[1], "--timeout=600s")
	spoke.WaitGone(t, "-n", "default", "deployments,configmaps,pods", "-l", "app=hello")
	spoke.WaitGone(t, "-n", "default", "configmap", "hello")
	spoke.Say("what was delivered to %s is gone", member)
	spoke.Kubectl(t, "delete", klusterlet[0], klusterlet[1], "--timeout=600s")
	unsubscribe(t, spoke, harness.MemberPackage)
	hub.Kubectl(t, "delete", clusterManager[0], clusterManager[1], "--timeout=600s")
	unsubscribe(t, hub, harness.HubPackage)
	left(t, spoke, map[string][]string{
		"customresourcedefinitions": {
			"appliedmanifestworks.work.open-cluster-management.io", "clusterclaims.cluster.open-cluster-management.io",
			"klusterlets.operator.open-cluster-management.io",
		},
		"validatingadmissionpolicies":       {"capstan-fence-klusterlet-v1"},
		"validatingadmissionpolicybindings": {"capstan-fence-klusterlet-v1"},
		"clusterroles":                      rolesOfOLM("klusterlets.operator.open-cluster-management.io-v1"),
		"operators":                         {"capstan-klusterlet.open-cluster-management"},
		"leases":                            {"klusterlet-lock"},
	})
	operators := []string{"capstan-hub.open-cluster-management"}
	if !testing.Short() { // also for the package that was refused: its definition is there
		operators = append(operators, "cluster-manager.ocm", "cluster-manager.open-cluster-management")
	}
	left(t, hub, map[string][]string{
		"customresourcedefinitions":         {"clustermanagers.operator.open-cluster-management.io"},
		"validatingadmissionpolicies":       {"capstan-fence-cluster-manager-v1"},
		"validatingadmissionpolicybindings": {"capstan-fence-cluster-manager-v1"},
		"clusterroles":                      rolesOfOLM("clustermanagers.operator.open-cluster-management.io-v1"),
		"operators":                         operators,
		"leases":                            {"cluster-manager-lock"},
	})
}

// rolesOfOLM are those by which OLM lets administrators, editors and viewers use
// what the operator of a definition, and those of a group, serve.
func rolesOfOLM(definition string) []string {
	return []string{
		definition + "-admin", definition + "-crdview", definition + "-edit", definition + "-view",
		"olm.og.open-cluster-management.admin", "olm.og.open-cluster-management.edit", "olm.og.open-cluster-management.view",
	}
}

// unsubscribe removes an operator from OLM.
func unsubscribe(t *testing.T, c harness.Cluster, packageName string) {
	t.Helper()
	c.Kubectl(t, "-n", harness.OperatorNamespace, "delete", "subscription", packageName)
	c.Kubectl(t, "-n", harness.OperatorNamespace, "delete", "clusterserviceversion", "-l", "operators.coreos.com/"+packageName+"."+harness.OperatorNamespace)
	c.WaitGone(t, "-n", harness.OperatorNamespace, "deployments,pods,serviceaccounts", "--field-selector=metadata.name!=default")
	c.Say("%s is uninstalled", packageName)
}

// left expects exactly the given objects, besides the namespace of the operators
// with its OperatorGroup, which the user made. OLM deletes no definition that an
// operator owns, and no operator may delete its fence.
func left(t *testing.T, c harness.Cluster, want map[string][]string) {
	t.Helper()
	want["namespaces"], want["operatorgroups"] = []string{harness.OperatorNamespace}, []string{harness.OperatorNamespace}
	kinds := []string{
		"customresourcedefinitions", "namespaces", "clusterroles", "clusterrolebindings", "validatingwebhookconfigurations",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "operators",
		"subscriptions", "installplans", "clusterserviceversions", "operatorconditions", "operatorgroups",
		"serviceaccounts", "roles", "rolebindings", "secrets", "leases",
	}
	harness.Eventually(t, func() error {
		got := map[string][]string{}
		for _, kind := range kinds {
			if names := c.OurNames(t, "-n", harness.OperatorNamespace, kind); len(names) > 0 {
				got[kind] = names
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("what is left on %s is not as expected (-want +got):\n%s", c.Name, diff)
		}
		return nil
	})
	for _, kind := range kinds {
		if len(want[kind]) > 0 {
			c.Say("left are %s: %s", kind, strings.Join(want[kind], ", "))
		}
	}
}
