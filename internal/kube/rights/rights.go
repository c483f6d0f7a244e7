// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Rights are what an account may do in a whole cluster. The zero value may do
// nothing.
type Rights struct {
	rules []rbacv1.PolicyRule
}

// Of returns the Rights that the rules give.
func Of(rules ...rbacv1.PolicyRule) Rights { return Rights{rules: rules} }

// All returns the Rights to do everything.
func All() Rights {
	each := []string{"*"}
	return Of(rbacv1.PolicyRule{APIGroups: each, Resources: each, Verbs: each}, rbacv1.PolicyRule{NonResourceURLs: each, Verbs: each})
}

// Lacks returns those parts of the rules that the Rights do not allow.
func (r Rights) Lacks(rules ...rbacv1.PolicyRule) []rbacv1.PolicyRule {
	_, missing := validation.Covers(r.rules, rules)
	return compact(missing)
}

// Allow tells whether the Rights allow all that the rules do.
func (r Rights) Allow(rules ...rbacv1.PolicyRule) bool {
	covered, _ := validation.Covers(r.rules, rules)
	return covered
}

// Grant returns what of the rules somebody with the Rights can put into a role,
// and what he cannot: who may escalate can put everything.
func (r Rights) Grant(wanted []rbacv1.PolicyRule) (granted, missing []rbacv1.PolicyRule) {
	if r.Allow(escalate()) {
		return wanted, nil
	}
	for _, rule := range wanted {
		if r.Allow(rule) {
			granted = append(granted, rule) // as it is written
			continue
		}
		var held []rbacv1.PolicyRule
		for _, part := range validation.BreakdownRule(rule) {
			if r.Allow(part) {
				held = append(held, part)
			}
		}
		granted = append(granted, compact(held)...)
	}
	return granted, r.Lacks(wanted...)
}

// escalate is the right to write roles with rules that one does not hold.
func escalate() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "roles"}, Verbs: []string{"escalate"},
	}
}

// compact joins rules of one verb, one resource and at most one name each, as
// a person would write them, in the order in which they come.
func compact(parts []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	verbs := join(parts,
		func(r rbacv1.PolicyRule) []string {
			return slices.Concat(r.NonResourceURLs, r.APIGroups, r.Resources, r.ResourceNames)
		},
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs })
	names := join(verbs,
		func(r rbacv1.PolicyRule) []string {
			return append(slices.Concat(r.NonResourceURLs, r.APIGroups, r.Resources, r.Verbs), fmt.Sprint(len(r.ResourceNames) > 0))
		},
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames })
	return join(names,
		func(r rbacv1.PolicyRule) []string {
			return slices.Concat(r.NonResourceURLs, r.APIGroups, r.Verbs, []string{"/"}, r.ResourceNames)
		},
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources })
}

// join makes one rule of those with the same key, with the field of all.
func join(
	rules []rbacv1.PolicyRule, key func(rbacv1.PolicyRule) []string, field func(*rbacv1.PolicyRule) *[]string,
) []rbacv1.PolicyRule {
	var joined []rbacv1.PolicyRule
	at := map[string]int{}
	for _, rule := range rules {
		id := strings.Join(key(rule), "\n")
		i, seen := at[id]
		if !seen {
			at[id] = len(joined)
			joined = append(joined, *rule.DeepCopy())
			continue
		}
		to := field(&joined[i])
		for _, value := range *field(&rule) {
			if !slices.Contains(*to, value) {
				*to = append(*to, value)
			}
		}
	}
	return joined
}

// Describe returns the rules as text for a message, such as
// "get,list configmaps; bind clusterroles.rbac.authorization.k8s.io (admin)".
func Describe(rules []rbacv1.PolicyRule) string {
	list := make([]string, 0, len(rules))
	for _, rule := range rules {
		var resources []string
		for _, resource := range rule.Resources {
			for _, group := range rule.APIGroups {
				resources = append(resources, strings.TrimSuffix(resource+"."+group, "."))
			}
		}
		text := strings.Join(rule.Verbs, ",") + " " + strings.Join(append(resources, rule.NonResourceURLs...), ",")
		if len(rule.ResourceNames) > 0 {
			text += " (" + strings.Join(rule.ResourceNames, ",") + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}
