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

// PermissionUse is something that the operator does, and what is off if it may not.
type PermissionUse struct {
	rules []rbacv1.PolicyRule
	off   string
}

// ReadingAgentPods looks at the pods of agents.
func ReadingAgentPods() PermissionUse {
	return PermissionUse{watchRules("", "pods"), "why the pods of agents do not run is not reported, and removing agents takes half a minute"}
}

// ManagingNetworkPolicies makes and removes network policies.
func ManagingNetworkPolicies() PermissionUse {
	return PermissionUse{
		policyRule(networkingv1.GroupName, "networkpolicies", "get", "list", "watch", "create", "update", "patch", "delete"),
		"NetworkPolicies are neither created nor removed, whatever the feature gate says",
	}
}

// GrantingMetrics makes the role of those who read the metrics of agents.
func GrantingMetrics() PermissionUse {
	return PermissionUse{
		[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		"there is no role for those who read the metrics of agents",
	}
}

// DeletingAppliedWorks deletes AppliedManifestWorks.
func DeletingAppliedWorks() PermissionUse {
	return PermissionUse{
		policyRule("work.open-cluster-management.io", "appliedmanifestworks", "delete"),
		"the AppliedManifestWorks of a Klusterlet that is deleted stay, and with them what they own",
	}
}

// permissionUses are all uses that are asked for: those that OCM's charts do not allow, and
// the watches, as a cache whose watch is forbidden never fills.
func permissionUses() []PermissionUse {
	all := []PermissionUse{
		ReadingAgentPods(), ManagingNetworkPolicies(), DeletingAppliedWorks(), GrantingMetrics(),
		{
			withResourceNames(policyRule("", "secrets", "get", "list", "watch", "update", "delete"), operatorv1.HubKubeConfigPendingSecret),
			"agents are not installed, as the secret that they keep a new key in cannot be guarded",
		},
		{
			withResourceNames(policyRule("", "secrets", "patch"), operatorv1.ImagePullSecret, operatorv1.ExternalManagedKubeConfigRegistrationSecret,
				operatorv1.ExternalManagedKubeConfigWorkSecret, operatorv1.ExternalManagedKubeConfigAgentSecret),
			"the pull secret is not copied, and hosted agents get no credentials",
		},
		{
			withResourceNames(watchRules("", "secrets"), operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret, operatorv1.ExternalManagedKubeConfigSecret,
				operatorv1.ExternalManagedKubeConfigRegistrationSecret, operatorv1.ExternalManagedKubeConfigWorkSecret, operatorv1.ExternalManagedKubeConfigAgentSecret),
			"changes of the secrets of agents are not seen",
		},
		{policyRule("events.k8s.io", "events", "create", "patch", "update"), "no events are recorded"},
		{policyRule("authentication.k8s.io", "tokenreviews", "create"), "nobody may read the metrics of the operator"},
	}
	for _, kind := range cachedKinds() {
		all = append(all, PermissionUse{kind.rules, fmt.Sprintf("changes of %s are not seen", kind.rules[0].Resources[0])})
	}
	return all
}

// cachedKind is one that the operator reads from a cache.
type cachedKind struct {
	object client.Object
	rules  []rbacv1.PolicyRule
}

// cachedKinds are all but Klusterlets, without which there is nothing to do, and
// secrets, which have caches of their own.
func cachedKinds() []cachedKind {
	return []cachedKind{
		{&corev1.Pod{}, watchRules("", "pods")},
		{&networkingv1.NetworkPolicy{}, watchRules(networkingv1.GroupName, "networkpolicies")},
		{&corev1.Namespace{}, watchRules("", "namespaces")},
		{&corev1.ConfigMap{}, withResourceNames(watchRules("", "configmaps"), operatorv1.JoinStatusConfigMap)},
		{&corev1.ServiceAccount{}, watchRules("", "serviceaccounts")},
		{&appsv1.Deployment{}, watchRules(appsv1.GroupName, "deployments")},
		{definitions.DefinitionMetadata(), watchRules(definitions.DefinitionKind().Group, "customresourcedefinitions")},
		{&rbacv1.ClusterRole{}, watchRules(rbacv1.GroupName, "clusterroles")},
		{&rbacv1.ClusterRoleBinding{}, watchRules(rbacv1.GroupName, "clusterrolebindings")},
		{&rbacv1.Role{}, watchRules(rbacv1.GroupName, "roles")},
		{&rbacv1.RoleBinding{}, watchRules(rbacv1.GroupName, "rolebindings")},
	}
}

func watchRules(group, resource string) []rbacv1.PolicyRule {
	return policyRule(group, resource, "list", "watch")
}

func policyRule(group, resource string, verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}
}

// withResourceNames returns the rules for objects of the names.
func withResourceNames(rules []rbacv1.PolicyRule, names ...string) []rbacv1.PolicyRule {
	for i := range rules {
		rules[i].ResourceNames = names
	}
	return rules
}
