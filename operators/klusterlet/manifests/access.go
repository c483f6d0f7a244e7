// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// AgentRules are the permissions of one agent: in the whole member, and in the
// namespace that it runs in.
type AgentRules struct {
	Cluster []rbacv1.PolicyRule
	Home    []rbacv1.PolicyRule
}

// AgentRuleSet are the permissions of the agents, as generated from the markers
// beside their code.
type AgentRuleSet struct {
	Registration, Work AgentRules
}

// WithClusterProperties returns the permissions with those that the registration agent
// needs for feature gate ClusterProperty. They have no marker, as they are for
// those who turn the gate on.
func (r AgentRuleSet) WithClusterProperties() AgentRuleSet {
	r.Registration.Cluster = append(slices.Clip(r.Registration.Cluster), rbacv1.PolicyRule{
		APIGroups: []string{aboutv1alpha1.GroupName}, Resources: []string{"clusterproperties"}, Verbs: []string{"get", "list", "watch"},
	})
	return r
}

// MemberAccess returns the ServiceAccounts of the agents on the member and what they
// may do there. The accounts come first, as the tokens of pods need them.
func MemberAccess(klusterlet *operatorv1.Klusterlet, rules AgentRuleSet, pullSecret string) []render.Object {
	if IsHostedMode(klusterlet) {
		pullSecret = "" // nothing is pulled where no pods run
	}
	accounts := agentAccountsIn(klusterlet, MemberNamespace(klusterlet))
	objects := accounts.serviceAccountObjects(klusterlet, pullSecret)
	for _, agent := range accounts.accessByAgent(rules) {
		cluster := render.ResourceMeta{Name: rolePrefix + klusterlet.Name + agent.suffix, Labels: KlusterletLabels(klusterlet)}
		objects = append(objects,
			render.ClusterRole(cluster, agent.rules.Cluster),
			render.ClusterRoleBinding(cluster, cluster.Name, agent.subject))
		if !IsHostedMode(klusterlet) {
			objects = append(objects, homeRole(klusterlet, agent)...)
		}
	}
	return append(objects, executionAccess(klusterlet, accounts.work)...)
}

// HomeAccess returns the ServiceAccounts that hosted agents run as on the
// management cluster, and what they may do there: nothing but what has to do
// with themselves. It is nothing if they are not hosted, as MemberAccess has it all.
func HomeAccess(klusterlet *operatorv1.Klusterlet, rules AgentRuleSet, pullSecret string) []render.Object {
	if !IsHostedMode(klusterlet) {
		return nil
	}
	accounts := agentAccountsIn(klusterlet, AgentNamespace(klusterlet))
	objects := accounts.serviceAccountObjects(klusterlet, pullSecret)
	for _, agent := range accounts.accessByAgent(rules) {
		cluster := render.ResourceMeta{Name: ManagementRolePrefix + klusterlet.Name + agent.suffix, Labels: KlusterletLabels(klusterlet)}
		objects = append(objects,
			render.ClusterRole(cluster, reviewRules()),
			render.ClusterRoleBinding(cluster, cluster.Name, agent.subject))
		objects = append(objects, homeRole(klusterlet, agent)...)
	}
	return objects
}

// reviewRules let an agent ask who reads its metrics, and whether they may.
func reviewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}

// agentAccounts are the identities of the agents on one cluster. A singleton has one
// for both.
type agentAccounts struct {
	registration, work rbacv1.Subject
}

func agentAccountsIn(klusterlet *operatorv1.Klusterlet, namespace string) agentAccounts {
	work := render.AccountSubject(namespace, WorkAccount(klusterlet))
	if IsSingletonMode(klusterlet) {
		return agentAccounts{registration: work, work: work}
	}
	return agentAccounts{registration: render.AccountSubject(namespace, RegistrationAccount(klusterlet)), work: work}
}

func (a agentAccounts) serviceAccountObjects(klusterlet *operatorv1.Klusterlet, pullSecret string) []render.Object {
	var pullSecrets []string
	if pullSecret != "" {
		pullSecrets = []string{pullSecret}
	}
	var objects []render.Object
	for _, account := range slices.Compact([]rbacv1.Subject{a.registration, a.work}) {
		meta := render.ResourceMeta{Name: account.Name, Namespace: account.Namespace, Labels: KlusterletLabels(klusterlet)}
		objects = append(objects, render.ServiceAccount(meta, pullSecrets...))
	}
	return objects
}

// agentAccess is what the code of one agent needs, and the identity that gets it.
type agentAccess struct {
	suffix  string
	rules   AgentRules
	subject rbacv1.Subject
}

func (a agentAccounts) accessByAgent(rules AgentRuleSet) []agentAccess {
	return []agentAccess{
		{"-registration:agent", rules.Registration, a.registration},
		{"-work:agent", rules.Work, a.work},
	}
}

// homeRole gives an agent what it needs where it runs.
func homeRole(klusterlet *operatorv1.Klusterlet, agent agentAccess) []render.Object {
	home := agentMeta(klusterlet, ManagementRolePrefix+klusterlet.Name+agent.suffix)
	return []render.Object{render.Role(home, agent.rules.Home), render.RoleBinding(home, home.Name, agent.subject)}
}

// executionAccess gives the work agent what the works that it applies need:
// the built-in role admin, the kinds that most works have besides, and what
// users add by labelling roles of their own.
func executionAccess(klusterlet *operatorv1.Klusterlet, subject rbacv1.Subject) []render.Object {
	named := func(suffix string) render.ResourceMeta {
		return render.ResourceMeta{Name: rolePrefix + klusterlet.Name + "-work:" + suffix, Labels: KlusterletLabels(klusterlet)}
	}
	// Shared by all Klusterlets, hence created by none in particular.
	shared := map[string]string{operatorv1.LabelCreatedByKlusterlet: ""}
	selector := metav1ac.LabelSelector().WithMatchLabels(map[string]string{operatorv1.LabelAggregateToWork: "true"})
	return []render.Object{
		render.ClusterRole(render.ResourceMeta{Name: ExecutionRole, Labels: shared}.
			WithLabels(map[string]string{operatorv1.LabelAggregateToWork: "true"}), ExecutionRules()),
		// Without rules: these are filled in by Kubernetes.
		rbacv1ac.ClusterRole(AggregateRole).WithLabels(shared).
			WithAggregationRule(rbacv1ac.AggregationRule().WithClusterRoleSelectors(selector)),
		render.ClusterRoleBinding(named("execution"), ExecutionRole, subject),
		render.ClusterRoleBinding(named("aggregate"), AggregateRole, subject),
		render.ClusterRoleBinding(named("execution-admin"), AdminRole, subject),
	}
}

// ExecutionRules returns what works commonly need that the role admin does not
// have. Roles come with escalate and bind, or the agent could apply only roles
// whose rules it has itself.
func ExecutionRules() []rbacv1.PolicyRule {
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
		// What limits namespaces, and the classes that other objects choose from. What
		// intercepts requests or traffic, reaches into nodes, or takes the share of others is
		// not among them: docs/security.md has the reason of each kind.
		{
			APIGroups: []string{""}, Resources: []string{"limitranges", "podtemplates", "resourcequotas"},
			Verbs: manage,
		},
		{
			APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingressclasses"},
			Verbs: manage,
		},
		{
			APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"},
			Verbs: manage,
		},
		{
			APIGroups: []string{"resource.k8s.io"}, Resources: []string{"deviceclasses"},
			Verbs: manage,
		},
		{
			APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses", "volumeattributesclasses"},
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
