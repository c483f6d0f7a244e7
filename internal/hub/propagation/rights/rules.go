// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Resources are those of Kinds.
type Resources struct {
	Templates, Dependencies sets.Set[schema.GroupResource]
}

func newResources() Resources {
	return Resources{sets.New[schema.GroupResource](), sets.New[schema.GroupResource]()}
}

// filterResources returns those that a function selects.
func (r Resources) filterResources(selects func(schema.GroupResource) bool) Resources {
	some := func(from sets.Set[schema.GroupResource]) sets.Set[schema.GroupResource] {
		into := sets.New[schema.GroupResource]()
		for resource := range from {
			if selects(resource) {
				into.Insert(resource)
			}
		}
		return into
	}
	return Resources{some(r.Templates), some(r.Dependencies)}
}

func (r Resources) union(other Resources) Resources {
	return Resources{r.Templates.Union(other.Templates), r.Dependencies.Union(other.Dependencies)}
}

func readVerbs() []string { return []string{"get", "list", "watch"} }

// RulesForResources returns what the controller does with resources. It reads all of them and
// writes their status. Templates it marks as claimed, too: dependencies are sent
// for somebody else. The right to their finalizers lets a binding be deleted with
// its object, where Kubernetes checks that.
func RulesForResources(of Resources) []rbacv1.PolicyRule {
	byGroup := map[string][]string{}
	for resource := range of.Templates.Union(of.Dependencies) {
		byGroup[resource.Group] = append(byGroup[resource.Group], resource.Resource)
	}
	groups := make([]string, 0, len(byGroup))
	for group, resources := range byGroup {
		groups = append(groups, group)
		slices.Sort(resources)
	}
	slices.Sort(groups)
	var rules []rbacv1.PolicyRule
	for _, group := range groups {
		var templates, dependencies, parts []string
		for _, resource := range byGroup[group] {
			if of.Templates.Has(schema.GroupResource{Group: group, Resource: resource}) {
				templates = append(templates, resource)
			} else {
				dependencies = append(dependencies, resource)
			}
			parts = append(parts, resource+"/finalizers", resource+"/status")
		}
		add := func(resources []string, verbs ...string) {
			if len(resources) > 0 {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs})
			}
		}
		add(templates, append(readVerbs(), "patch")...)
		add(dependencies, readVerbs()...)
		add(parts, "patch", "update")
	}
	return rules
}

// granted returns the resources that rules of ours are for.
func granted(rules []rbacv1.PolicyRule) Resources {
	found := newResources()
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				of := schema.GroupResource{Group: group, Resource: resource}
				switch {
				case strings.Contains(resource, "/"):
				case slices.Contains(rule.Verbs, "patch"):
					found.Templates.Insert(of)
				default:
					found.Dependencies.Insert(of)
				}
			}
		}
	}
	return found
}
