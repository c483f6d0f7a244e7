// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/render"
)

// AgentRules are the permissions of one agent: in the whole member, and in the
// namespace that it runs in.
type AgentRules struct {
	Cluster []rbacv1.PolicyRule
	Home    []rbacv1.PolicyRule
}

// Rules are the permissions of the agents, as generated from the markers
// beside their code.
type Rules struct {
	Registration, Work AgentRules
}

// Access returns the ServiceAccounts of the agents and what they may do. The
// accounts come first, as the tokens of pods need them.
func Access(klusterlet *operatorv1.Klusterlet, rules Rules, pullSecret string) []render.Object {
	var pullSecrets []string
	if pullSecret != "" {
		pullSecrets = []string{pullSecret}
	}
	work := render.Account(AgentNamespace(klusterlet), WorkAccount(klusterlet))
	registration := work
	var objects []render.Object
	if !Singleton(klusterlet) {
		registration = render.Account(AgentNamespace(klusterlet), RegistrationAccount(klusterlet))
		objects = append(objects, render.ServiceAccount(agentMeta(klusterlet, registration.Name), pullSecrets...))
	}
	objects = append(objects, render.ServiceAccount(agentMeta(klusterlet, work.Name), pullSecrets...))
	objects = append(objects, agentAccess(klusterlet, "-registration:agent", rules.Registration, registration)...)
	objects = append(objects, agentAccess(klusterlet, "-work:agent", rules.Work, work)...)
	return append(objects, executionAccess(klusterlet, work)...)
}

// agentAccess gives an agent what its own code needs.
func agentAccess(klusterlet *operatorv1.Klusterlet, suffix string, rules AgentRules, subject rbacv1.Subject) []render.Object {
	cluster := render.Meta{Name: rolePrefix + klusterlet.Name + suffix, Labels: Marks(klusterlet)}
	home := agentMeta(klusterlet, managementRolePrefix+klusterlet.Name+suffix)
	return []render.Object{
		render.ClusterRole(cluster, rules.Cluster),
		render.ClusterRoleBinding(cluster, cluster.Name, subject),
		render.Role(home, rules.Home),
		render.RoleBinding(home, home.Name, subject),
	}
}

// executionAccess gives the work agent what the works that it applies need:
// the built-in role admin, the kinds that most works have besides, and what
// users add by labelling roles of their own.
func executionAccess(klusterlet *operatorv1.Klusterlet, subject rbacv1.Subject) []render.Object {
	named := func(suffix string) render.Meta {
		return render.Meta{Name: rolePrefix + klusterlet.Name + "-work:" + suffix, Labels: Marks(klusterlet)}
	}
	// Shared by all Klusterlets, hence created by none in particular.
	shared := map[string]string{operatorv1.LabelCreatedByKlusterlet: ""}
	selector := metav1ac.LabelSelector().WithMatchLabels(map[string]string{operatorv1.LabelAggregateToWork: "true"})
	return []render.Object{
		render.ClusterRole(render.Meta{Name: ExecutionRole, Labels: shared}.
			Labelled(map[string]string{operatorv1.LabelAggregateToWork: "true"}), executionRules()),
		// Without rules: these are filled in by Kubernetes.
		rbacv1ac.ClusterRole(AggregateRole).WithLabels(shared).
			WithAggregationRule(rbacv1ac.AggregationRule().WithClusterRoleSelectors(selector)),
		render.ClusterRoleBinding(named("execution"), ExecutionRole, subject),
		render.ClusterRoleBinding(named("aggregate"), AggregateRole, subject),
		render.ClusterRoleBinding(named("execution-admin"), AdminRole, subject),
	}
}

// executionRules are what works commonly need that the role admin does not
// have. Roles come with escalate and bind, or the agent could apply only roles
// whose rules it has itself.
func executionRules() []rbacv1.PolicyRule {
	manage := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
			Verbs: manage,
		},
		{
			APIGroups: []string{""}, Resources: []string{"namespaces"},
			Verbs: manage,
		},
		{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings", "rolebindings"},
			Verbs: manage,
		},
		{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "roles"},
			Verbs: append([]string{"escalate", "bind"}, manage...),
		},
		{
			// The agent tries as the executor of a work whether it may grant what a role
			// or a binding of the work grants.
			APIGroups: []string{""}, Resources: []string{"serviceaccounts"},
			Verbs: []string{"impersonate"},
		},
		{
			APIGroups: []string{"monitoring.coreos.com"}, Resources: []string{"servicemonitors"},
			Verbs: manage,
		},
		{
			APIGroups: []string{"oauth.openshift.io"}, Resources: []string{"oauthclients"},
			Verbs: manage,
		},
		{
			APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"},
			Verbs: manage,
		},
		{
			// Without delete: a webhook that disappears lets through what it should stop.
			APIGroups: []string{"admissionregistration.k8s.io"},
			Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			Verbs:     []string{"get", "list", "watch", "create", "update", "patch"},
		},
	}
}
