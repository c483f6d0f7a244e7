// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-io/capstan/config"
)

// TestWhatIsInNoNamespaceHasAPayer looks for kinds without a namespace that are written for tenants, who could have
// them written without end: a pace is that of a namespace.
func TestWhatIsInNoNamespaceHasAPayer(t *testing.T) {
	const administrator = "an administrator asks for it"
	paid := map[string]string{
		"propagationrevisions.fleet.capstan.io":        "TestRevisionsOfANamespaceHaveAPace",
		"clusterpropagationpolicies.policy.karmada.io": administrator,
		"clusterpropagationrollouts.fleet.capstan.io":  administrator,
		"clusterresourcebindings.work.karmada.io":      administrator,
		"workloadrebalancers.apps.karmada.io":          administrator,
		"namespaces":                                   "one for each cluster",
		"clusterroles.rbac.authorization.k8s.io":       "one, as often as an object may be written",
		"tokenreviews.authentication.k8s.io":           "nobody stores it",
		"subjectaccessreviews.authorization.k8s.io":    "nobody stores it",
	}
	inNamespaces := map[string]bool{"events.events.k8s.io": true}
	hub, err := config.HubCRDs()
	sent, failed := config.PropagationCRDs()
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	for _, crd := range append(hub, sent...) {
		inNamespaces[crd.Name] = crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	}
	found := map[string]bool{}
	for _, component := range []string{config.PropagationController, config.WorkController, config.PlacementController} {
		rules, _, err := config.Rules(component)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range writtenResources(rules) {
			if inNamespaces[name] {
				continue
			}
			if found[name] = true; paid[name] == "" {
				t.Errorf("%s writes %s, which is in no namespace: whose users have it written, and which pace bounds that (selfconflict.WithPayer)?", component, name)
			}
		}
	}
	for name := range paid {
		if !found[name] {
			t.Errorf("%s is not written any more: leave it out here", name)
		}
	}
}

// writtenResources returns what rules let somebody create or change, as definitions are named.
func writtenResources(rules []rbacv1.PolicyRule) (names []string) {
	for _, rule := range rules {
		if !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return slices.Contains([]string{"create", "patch", "update"}, verb) }) {
			continue
		}
		for _, resource := range rule.Resources {
			name, _, _ := strings.Cut(resource, "/")
			if group := rule.APIGroups[0]; group != "" {
				name += "." + group
			}
			names = append(names, name)
		}
	}
	return names
}
