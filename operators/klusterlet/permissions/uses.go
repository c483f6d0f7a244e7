// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
)

// Use is something that the operator does, and what is off if it may not.
type Use struct {
	rules []rbacv1.PolicyRule
	off   string
}

// Pods looks at the pods of agents.
func Pods() Use {
	return Use{watching("", "pods"), "why the pods of agents do not run is not reported, and removing agents takes half a minute"}
}

// NetworkPolicies makes and removes network policies.
func NetworkPolicies() Use {
	return Use{
		rule(networkingv1.GroupName, "networkpolicies", "get", "list", "watch", "create", "update", "patch", "delete"),
		"NetworkPolicies are neither made nor removed, whatever the feature gate says",
	}
}

// GrantingMetrics makes the role of those who read the metrics of agents.
func GrantingMetrics() Use {
	return Use{
		[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		"there is no role for those who read the metrics of agents",
	}
}

// DeletingAppliedWorks deletes AppliedManifestWorks.
func DeletingAppliedWorks() Use {
	return Use{
		rule("work.open-cluster-management.io", "appliedmanifestworks", "delete"),
		"the AppliedManifestWorks of a Klusterlet that is deleted stay, and with them what they own",
	}
}

// uses are all uses that are asked for: those that OCM's charts do not allow, and
// the watches, as a cache whose watch is forbidden never fills.
func uses() []Use {
	all := []Use{
		Pods(), NetworkPolicies(), DeletingAppliedWorks(), GrantingMetrics(),
		{
			named(rule("", "secrets", "get", "list", "watch", "update", "delete"), operatorv1.HubKubeConfigPendingSecret),
			"agents are not installed, as the secret that they keep a new key in cannot be guarded",
		},
		{
			named(rule("", "secrets", "patch"), operatorv1.ImagePullSecret, operatorv1.ExternalManagedKubeConfigRegistrationSecret,
				operatorv1.ExternalManagedKubeConfigWorkSecret, operatorv1.ExternalManagedKubeConfigAgentSecret),
			"the pull secret is not copied, and hosted agents get no credentials",
		},
		{
			named(watching("", "secrets"), operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret, operatorv1.ExternalManagedKubeConfigSecret,
				operatorv1.ExternalManagedKubeConfigRegistrationSecret, operatorv1.ExternalManagedKubeConfigWorkSecret, operatorv1.ExternalManagedKubeConfigAgentSecret),
			"changes of the secrets of agents are not seen",
		},
		{rule("events.k8s.io", "events", "create", "patch", "update"), "no events are recorded"},
		{rule("authentication.k8s.io", "tokenreviews", "create"), "nobody may read the metrics of the operator"},
	}
	for _, kind := range kinds() {
		all = append(all, Use{kind.rules, fmt.Sprintf("changes of %s are not seen", kind.rules[0].Resources[0])})
	}
	return all
}

// kind is one that the operator reads from a cache.
type kind struct {
	object client.Object
	rules  []rbacv1.PolicyRule
}

// kinds are all but Klusterlets, without which there is nothing to do, and
// secrets, which have caches of their own.
func kinds() []kind {
	return []kind{
		{&corev1.Pod{}, watching("", "pods")},
		{&networkingv1.NetworkPolicy{}, watching(networkingv1.GroupName, "networkpolicies")},
		{&corev1.Namespace{}, watching("", "namespaces")},
		{&corev1.ConfigMap{}, named(watching("", "configmaps"), operatorv1.JoinStatusConfigMap)},
		{&corev1.ServiceAccount{}, watching("", "serviceaccounts")},
		{&appsv1.Deployment{}, watching(appsv1.GroupName, "deployments")},
		{definitions.Metadata(), watching(definitions.Kind().Group, "customresourcedefinitions")},
		{&rbacv1.ClusterRole{}, watching(rbacv1.GroupName, "clusterroles")},
		{&rbacv1.ClusterRoleBinding{}, watching(rbacv1.GroupName, "clusterrolebindings")},
		{&rbacv1.Role{}, watching(rbacv1.GroupName, "roles")},
		{&rbacv1.RoleBinding{}, watching(rbacv1.GroupName, "rolebindings")},
	}
}

func watching(group, resource string) []rbacv1.PolicyRule {
	return rule(group, resource, "list", "watch")
}

func rule(group, resource string, verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}
}

// named returns the rules for objects of the names.
func named(rules []rbacv1.PolicyRule, names ...string) []rbacv1.PolicyRule {
	for i := range rules {
		rules[i].ResourceNames = names
	}
	return rules
}
