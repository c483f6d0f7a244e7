// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refusedBesideUs expects OLM to refuse a package that owns what ours owns, in the
// namespace of ours and in one of its own.
func refusedBesideUs(t *testing.T, hub cluster) {
	t.Helper()
	hub.apply(t, subscription(operatorNamespace, foreignPackage))
	hub.waitCondition(t, "ResolutionFailed", "True ConstraintsNotSatisfiable", "-n", operatorNamespace, "subscription", foreignPackage)
	theLab.say("%s: in the same namespace, OLM resolves no %s: %s", hub.name, foreignPackage,
		hub.condition(t, "ResolutionFailed", "-n", operatorNamespace, "subscription", foreignPackage))
	hub.kubectl(t, "-n", operatorNamespace, "delete", "subscription", foreignPackage)

	const other = "ocm"
	hub.kubectl(t, "create", "namespace", other)
	hub.apply(t, operatorGroup(other))
	hub.apply(t, subscription(other, foreignPackage))
	object := []string{"-n", other, "clusterserviceversion", csvName(foreignPackage, first)}
	hub.waitFor(t, "{.status.phase} {.status.reason}", "Failed InterOperatorGroupOwnerConflict", object...)
	theLab.say("%s: in another namespace, %s fails: %s", hub.name, csvName(foreignPackage, first), hub.get(t, "{.status.message}", object...))
	if got := hub.get(t, "{.status.phase}", csv(hubPackage, next)...); got != "Succeeded" {
		t.Errorf("beside the refused one, ours is %q, want Succeeded", got)
	}
	hub.kubectl(t, "-n", other, "delete", "subscription,clusterserviceversion", "--all")
	hub.kubectl(t, "delete", "namespace", other)
}

// leave removes everything in the order that the guide says, and looks at what is left.
func leave(t *testing.T, hub, spoke cluster) {
	t.Helper()
	hub.kubectl(t, "delete", managedCluster[0], managedCluster[1], "--timeout=600s")
	spoke.waitGone(t, "-n", "default", "deployments,configmaps,pods", "-l", "app=hello")
	spoke.waitGone(t, "-n", "default", "configmap", "hello")
	theLab.say("%s: what was delivered to %s is gone", spoke.name, member)
	spoke.kubectl(t, "delete", klusterlet[0], klusterlet[1], "--timeout=600s")
	unsubscribe(t, spoke, memberPackage)
	hub.kubectl(t, "delete", clusterManager[0], clusterManager[1], "--timeout=600s")
	unsubscribe(t, hub, hubPackage)
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
func unsubscribe(t *testing.T, c cluster, packageName string) {
	t.Helper()
	c.kubectl(t, "-n", operatorNamespace, "delete", "subscription", packageName)
	c.kubectl(t, "-n", operatorNamespace, "delete", "clusterserviceversion", "-l", "operators.coreos.com/"+packageName+"."+operatorNamespace)
	c.waitGone(t, "-n", operatorNamespace, "deployments,pods,serviceaccounts", "--field-selector=metadata.name!=default")
	theLab.say("%s: %s is uninstalled", c.name, packageName)
}

// left expects exactly the given objects, besides the namespace of the operators
// with its OperatorGroup, which the user made. OLM deletes no definition that an
// operator owns, and no operator may delete its fence.
func left(t *testing.T, c cluster, want map[string][]string) {
	t.Helper()
	want["namespaces"], want["operatorgroups"] = []string{operatorNamespace}, []string{operatorNamespace}
	kinds := []string{
		"customresourcedefinitions", "namespaces", "clusterroles", "clusterrolebindings", "validatingwebhookconfigurations",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "operators",
		"subscriptions", "installplans", "clusterserviceversions", "operatorconditions", "operatorgroups",
		"serviceaccounts", "roles", "rolebindings", "secrets", "leases",
	}
	eventually(t, func() error {
		got := map[string][]string{}
		for _, kind := range kinds {
			if names := c.ours(t, "-n", operatorNamespace, kind); len(names) > 0 {
				got[kind] = names
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("what is left on %s is not as expected (-want +got):\n%s", c.name, diff)
		}
		return nil
	})
	for _, kind := range kinds {
		if len(want[kind]) > 0 {
			theLab.say("%s: left are %s: %s", c.name, kind, strings.Join(want[kind], ", "))
		}
	}
}

// suffix is what OLM adds to names that it generates.
var suffix = regexp.MustCompile(`-[0-9A-Za-z]{30,}$`)

// ours returns the sorted names of objects of Capstan, or of OLM for it.
func (c cluster) ours(t *testing.T, objects ...string) []string {
	t.Helper()
	var found []string
	for _, name := range c.names(t, []string{"open-cluster-management", "capstan", "klusterlet", "cluster-manager", "karmada.io"}, objects...) {
		found = append(found, suffix.ReplaceAllString(name, ""))
	}
	return found
}
