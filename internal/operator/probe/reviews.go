// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// permission is something that an agent does on the hub, or the operator on a
// managed cluster.
type permission = authorizationv1.ResourceAttributes

// bootstrapPermissions are what a credential to join with must allow. OCM's
// agent needs list and watch on certificatesigningrequests, too; ours does not,
// and a hub with the gate StrictBootstrap does not grant them.
func bootstrapPermissions() []permission {
	return slices.Concat(
		permissionsFor(permission{Group: "cluster.open-cluster-management.io", Resource: "managedclusters"}, "create", "get"),
		permissionsFor(permission{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, "create", "get"),
	)
}

// hubPermissions are what the agent of the cluster must be allowed once it has joined.
func hubPermissions(cluster string) []permission {
	managedCluster := permission{Group: "cluster.open-cluster-management.io", Resource: "managedclusters", Name: cluster}
	clusterStatus := managedCluster
	clusterStatus.Subresource = "status"
	work := permission{Group: "work.open-cluster-management.io", Resource: "manifestworks", Namespace: cluster}
	workStatus := work
	workStatus.Subresource = "status"
	return slices.Concat(
		permissionsFor(permission{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, "get", "list", "watch"),
		permissionsFor(managedCluster, "get", "list", "update", "watch"),
		permissionsFor(clusterStatus, "patch", "update"),
		permissionsFor(permission{
			Group: "register.open-cluster-management.io", Resource: "managedclusters",
			Subresource: "clientcertificates", Name: cluster,
		}, "renew"),
		permissionsFor(permission{
			Group: "coordination.k8s.io", Resource: "leases", Name: "managed-cluster-lease", Namespace: cluster,
		}, "get", "update"),
		permissionsFor(permission{Resource: "events", Namespace: cluster}, "create", "patch", "update"),
		permissionsFor(permission{Group: "events.k8s.io", Resource: "events", Namespace: cluster}, "create", "patch", "update"),
		permissionsFor(work, "get", "list", "watch", "update"),
		permissionsFor(workStatus, "patch", "update"),
	)
}

// memberPermissions are what the operator needs on a managed cluster to install
// what the agents need there, as far as it can be asked for: that it holds what
// its roles give shows only when it writes them.
func memberPermissions(namespace string) []permission {
	account := permission{Resource: "serviceaccounts", Namespace: namespace}
	token := account
	token.Subresource = "token"
	return slices.Concat(
		permissionsFor(permission{Resource: "namespaces"}, "create", "get", "list", "patch", "delete"),
		permissionsFor(account, "create", "get", "list", "patch", "delete"),
		permissionsFor(token, "create"),
		permissionsFor(permission{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "create", "get", "list", "patch", "delete"),
		permissionsFor(permission{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}, "create", "get", "list", "patch", "delete"),
		permissionsFor(permission{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "create", "get"),
		permissionsFor(permission{Group: "work.open-cluster-management.io", Resource: "appliedmanifestworks"}, "list", "patch", "delete"),
	)
}

// hostedHubPermissions are what the operator needs on a hub that it does not run
// on, with the same exception.
func hostedHubPermissions(namespace string) []permission {
	const rbac, admission = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
	own := func(group, resource string) permission {
		return permission{Group: group, Resource: resource, Namespace: namespace}
	}
	token := own("", "serviceaccounts")
	token.Subresource = "token"
	definition := permission{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	ours := definition
	ours.Name = "managedclusters.cluster.open-cluster-management.io" // one for all of them
	wanted := slices.Concat(permissionsFor(token, "create"), permissionsFor(definition, "create", "get"), permissionsFor(ours, "patch", "delete"))
	for _, managed := range []permission{
		{Resource: "namespaces"},
		own("", "serviceaccounts"), own("", "services"), own("discovery.k8s.io", "endpointslices"),
		own(rbac, "roles"), own(rbac, "rolebindings"),
		{Group: rbac, Resource: "clusterroles"},
		{Group: rbac, Resource: "clusterrolebindings"},
		{Group: admission, Resource: "mutatingwebhookconfigurations"},
		{Group: admission, Resource: "validatingwebhookconfigurations"},
	} {
		wanted = append(wanted, permissionsFor(managed, "create", "get", "list", "patch", "delete")...)
	}
	return wanted
}

func permissionsFor(p permission, verbs ...string) []permission {
	list := make([]permission, 0, len(verbs))
	for _, verb := range verbs {
		p.Verb = verb
		list = append(list, p)
	}
	return list
}

// describePermission says what a permission is for, as in "create managedclusters.cluster.open-cluster-management.io".
func describePermission(p permission) string {
	resource := p.Resource
	if p.Group != "" {
		resource += "." + p.Group
	}
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	text := p.Verb + " " + resource
	if p.Name != "" {
		text += fmt.Sprintf(" %q", p.Name)
	}
	if p.Namespace != "" {
		text += fmt.Sprintf(" in namespace %q", p.Namespace)
	}
	return text
}

// rulesAllow reports whether the rules, which a server says hold for a namespace and
// for the cluster, allow what is asked for.
func rulesAllow(rules []authorizationv1.ResourceRule, p permission) bool {
	resource := p.Resource
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	return slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool {
		return containsOrWildcard(rule.Verbs, p.Verb) && containsOrWildcard(rule.APIGroups, p.Group) &&
			(containsOrWildcard(rule.Resources, resource) || p.Subresource != "" && slices.Contains(rule.Resources, "*/"+p.Subresource)) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, p.Name))
	})
}

func containsOrWildcard(list []string, item string) bool {
	return slices.Contains(list, item) || slices.Contains(list, "*")
}
