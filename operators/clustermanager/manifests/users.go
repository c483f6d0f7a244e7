// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// aggregateTo begins the label by which Kubernetes makes the rules of a
// ClusterRole part of one that users are bound to.
const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// The roles of Kubernetes for the users of a namespace. Each has the rules of
// those before it.
const (
	viewRole  = "view"
	editRole  = "edit"
	adminRole = "admin"
)

// UserRoles returns the roles by which the users of a namespace may do with our
// kinds what UserRules say, as far as grant lets them.
func UserRoles(h Hub, grant func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) []render.Object {
	var objects []render.Object
	for _, role := range []string{viewRole, editRole, adminRole} {
		rules := grant(userRules(role))
		if len(rules) == 0 {
			continue
		}
		m := h.resourceMeta(h.roleName("aggregate-to-" + role)).InNamespace("").WithLabels(map[string]string{aggregateTo + role: "true"})
		objects = append(objects, render.ClusterRole(m, rules))
	}
	return objects
}

// UserRules are what users of a namespace may do with our kinds, those of all
// roles together.
func UserRules() []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, role := range []string{viewRole, editRole, adminRole} {
		all = append(all, userRules(role)...)
	}
	return all
}

// userRules returns what a role adds to the one before it. No role writes works
// and what makes them: the agents apply them with all permissions on the members,
// so this is for those who administrate the fleet to give. Decisions and scores
// are written by controllers and add-ons, which others trust. Policies send what
// their author may not read, and what they send is applied with all permissions,
// too.
func userRules(role string) []rbacv1.PolicyRule {
	cluster := []string{clusterv1.GroupVersion.Group}
	work := []string{workv1.GroupVersion.Group}
	read := []string{"get", "list", "watch"}
	switch role {
	case viewRole:
		return []rbacv1.PolicyRule{{
			APIGroups: cluster, Verbs: read,
			Resources: []string{"placements", "placementdecisions", "managedclustersetbindings", "addonplacementscores"},
		}, {
			APIGroups: []string{policyv1alpha1.GroupName}, Verbs: read, Resources: []string{"propagationpolicies"},
		}, {
			APIGroups: []string{workv1alpha2.GroupName}, Verbs: read, Resources: []string{"resourcebindings"},
		}}
	case editRole: // like Secrets, which works and overrides may contain
		return []rbacv1.PolicyRule{
			{APIGroups: work, Verbs: read, Resources: []string{"manifestworks", "manifestworkreplicasets"}},
			{APIGroups: []string{policyv1alpha1.GroupName}, Verbs: read, Resources: []string{"overridepolicies"}},
		}
	default: // who binds a set needs managedclustersets/bind for it as well
		return []rbacv1.PolicyRule{{
			APIGroups: cluster, Verbs: []string{"create", "update", "patch", "delete"},
			Resources: []string{"placements", "managedclustersetbindings"},
		}}
	}
}
