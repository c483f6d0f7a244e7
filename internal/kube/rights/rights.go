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

// FromRules returns the Rights that the rules give.
func FromRules(rules ...rbacv1.PolicyRule) Rights { return Rights{rules: rules} }

// AllRights returns the Rights to do everything.
func AllRights() Rights {
	each := []string{"*"}
	return FromRules(rbacv1.PolicyRule{APIGroups: each, Resources: each, Verbs: each}, rbacv1.PolicyRule{NonResourceURLs: each, Verbs: each})
}

// MissingRules returns those parts of the rules that the Rights do not allow.
func (r Rights) MissingRules(rules ...rbacv1.PolicyRule) []rbacv1.PolicyRule {
	_, missing := validation.Covers(r.rules, rules)
	return compactRules(missing)
}

// AllowsRules reports whether the Rights allow all that the rules do.
func (r Rights) AllowsRules(rules ...rbacv1.PolicyRule) bool {
	covered, _ := validation.Covers(r.rules, rules)
	return covered
}

// SplitGrantable returns what of the rules somebody with the Rights can put into a role,
// and what he cannot: who may escalate can put everything.
func (r Rights) SplitGrantable(wanted []rbacv1.PolicyRule) (granted, missing []rbacv1.PolicyRule) {
	if r.AllowsRules(escalateRule()) {
		return wanted, nil
	}
	for _, rule := range wanted {
		if r.AllowsRules(rule) {
			granted = append(granted, rule) // as it is written
			continue
		}
		var held []rbacv1.PolicyRule
		for _, part := range validation.BreakdownRule(rule) {
			if r.AllowsRules(part) {
				held = append(held, part)
			}
		}
		granted = append(granted, compactRules(held)...)
	}
	return granted, r.MissingRules(wanted...)
}

// escalateRule is the right to write roles with rules that one does not hold.
func escalateRule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "roles"}, Verbs: []string{"escalate"},
	}
}

// compactRules joins rules of one verb, one resource and at most one name each, as
// a person would write them, in the order in which they come.
func compactRules(parts []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	verbs := joinRules(parts,
		func(r rbacv1.PolicyRule) []string {
			return slices.Concat(r.NonResourceURLs, r.APIGroups, r.Resources, r.ResourceNames)
		},
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs })
	names := joinRules(verbs,
		func(r rbacv1.PolicyRule) []string {
			return append(slices.Concat(r.NonResourceURLs, r.APIGroups, r.Resources, r.Verbs), fmt.Sprint(len(r.ResourceNames) > 0))
		},
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames })
	return joinRules(names,
		func(r rbacv1.PolicyRule) []string {
			return slices.Concat(r.NonResourceURLs, r.APIGroups, r.Verbs, []string{"/"}, r.ResourceNames)
		},
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources })
}

// joinRules makes one rule of those with the same key, with the field of all.
func joinRules(
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

// DescribeRules returns the rules as text for a message, such as
// "get,list configmaps; bind clusterroles.rbac.authorization.k8s.io (admin)".
func DescribeRules(rules []rbacv1.PolicyRule) string {
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
