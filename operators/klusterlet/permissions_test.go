// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// An agent's marker for a namespace gives the operator the right in that
// namespace only, but the agents can be in any.
func TestOperatorHoldsWhatItGrants(t *testing.T) {
	held, _, err := config.Rules(config.Klusterlet)
	expect.NoError(t, err)
	rules, err := LoadAgentRules()
	expect.NoError(t, err)
	rules = rules.WithClusterProperties()
	for _, granted := range slices.Concat(rules.Registration.Cluster, rules.Registration.Home, rules.Work.Cluster, rules.Work.Home) {
		for _, single := range singles(granted) {
			if !slices.ContainsFunc(held, func(rule rbacv1.PolicyRule) bool { return covers(rule, single) }) {
				t.Errorf("the role of the operator lacks %v, which it gives an agent: add it to permissions.go and run make generate", single)
			}
		}
	}
}

func TestRolesHaveNoWildcards(t *testing.T) {
	for _, component := range []string{config.Klusterlet, config.RegistrationAgent, config.WorkAgent} {
		cluster, namespaced, err := config.Rules(component)
		expect.NoError(t, err)
		for _, rule := range slices.Concat(cluster, namespaced) {
			for _, item := range slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources) {
				if strings.Contains(item, "*") {
					t.Errorf("the role of %s has a wildcard: %v", component, rule)
				}
			}
			if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
				t.Errorf("the role of %s reads or changes secrets that it does not name: %v", component, rule)
			}
		}
	}
}

// singles returns one rule for each thing that the rule allows.
func singles(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			list = append(list, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				single := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
				if len(rule.ResourceNames) == 0 {
					list = append(list, single)
				}
				for _, name := range rule.ResourceNames {
					named := single
					named.ResourceNames = []string{name}
					list = append(list, named)
				}
			}
		}
	}
	return list
}

// covers reports whether the rule allows what the single one does.
func covers(rule, single rbacv1.PolicyRule) bool {
	if !slices.Contains(rule.Verbs, single.Verbs[0]) {
		return false
	}
	if len(single.NonResourceURLs) > 0 {
		return slices.Contains(rule.NonResourceURLs, single.NonResourceURLs[0])
	}
	return slices.Contains(rule.APIGroups, single.APIGroups[0]) && slices.Contains(rule.Resources, single.Resources[0]) &&
		(len(rule.ResourceNames) == 0 || len(single.ResourceNames) > 0 && slices.Contains(rule.ResourceNames, single.ResourceNames[0]))
}
