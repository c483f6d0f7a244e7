// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/affinity"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// Kinds of policies.
const (
	kindPolicy        = "OverridePolicy"
	kindClusterPolicy = "ClusterOverridePolicy"
)

// aboutBytesMax is how long the policies about one object are together at most, as JSON: they are
// compiled for each look at it, and stored with each of its revisions.
const aboutBytesMax = 8 << 20

// Policies are the policies that are about an object, in the order in which they
// are applied. They do not change, and may be used from several goroutines.
type Policies []Policy

// Policy is an OverridePolicy or a ClusterOverridePolicy.
type Policy struct {
	// Kind is OverridePolicy or ClusterOverridePolicy.
	Kind string
	// Namespace is empty for a ClusterOverridePolicy.
	Namespace, Name string

	priority selector.Priority
	rules    []rule
	bytes    int // as JSON
}

// String returns the policy as errors name it, such as OverridePolicy shop/web.
func (p Policy) String() string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

// rule is what a policy changes in some clusters.
type rule struct {
	clusters   affinity.Affinity
	mistakes   field.ErrorList // in the selection of the clusters
	overriders policyv1alpha1.Overriders
	path       *field.Path // of overriders
}

// SelectPolicies returns the policies that are about an object: first the
// ClusterOverridePolicies and then the OverridePolicies of its namespace, both
// with those that select it most exactly last, and by name. A policy without
// resourceSelectors is about all objects in its reach. A selector with a mistake
// selects nothing, and the error, which is about all of these, says so.
func SelectPolicies(object selector.Object, clusterPolicies []policyv1alpha1.ClusterOverridePolicy, policies []policyv1alpha1.OverridePolicy) (Policies, error) {
	var all, own Policies
	var problems []error
	left := aboutBytesMax
	for i := range clusterPolicies {
		p := &clusterPolicies[i]
		policy, err := matchPolicy(object, Policy{Kind: kindClusterPolicy, Name: p.Name}, &p.Spec, &left)
		problems = append(problems, err)
		all = append(all, policy...)
	}
	for i := range policies {
		p := &policies[i]
		if p.Namespace != object.GetNamespace() {
			continue
		}
		policy, err := matchPolicy(object, Policy{Kind: kindPolicy, Namespace: p.Namespace, Name: p.Name}, &p.Spec, &left)
		problems = append(problems, err)
		own = append(own, policy...)
	}
	slices.SortFunc(all, byOrder)
	slices.SortFunc(own, byOrder)
	if left < 0 {
		problems = append(problems, fmt.Errorf("all override policies about this object have more than the %d bytes that they may have together: "+
			"have fewer of them select it, or make them shorter", aboutBytesMax))
	}
	return append(all, own...), errors.Join(problems...)
}

func byOrder(a, b Policy) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.Name, b.Name))
}

// matchPolicy returns the policy, with its rules, if it is about the object. It takes its length from what
// is left, and returns nothing more when that is less than nothing.
func matchPolicy(object selector.Object, policy Policy, spec *policyv1alpha1.OverrideSpec, left *int) (Policies, error) {
	if *left < 0 {
		return nil, nil
	}
	policy.priority = selector.ByKind
	var err error
	if len(spec.ResourceSelectors) > 0 {
		selectors, problems := selector.CompileSelectors(policy.Namespace, spec.ResourceSelectors, field.NewPath("spec", "resourceSelectors"))
		if len(problems) > 0 {
			err = fmt.Errorf("%s: %w", policy, problems.ToAggregate())
		}
		policy.priority = selectors.PriorityOf(object)
	}
	if policy.priority == selector.None {
		return nil, err
	}
	text, _ := json.Marshal(spec) // whoever applies what is no JSON tells of it
	if *left -= len(text); *left < 0 {
		return nil, err
	}
	policy.rules, policy.bytes = rulesOf(spec), len(text)
	return Policies{policy}, err
}

// rulesOf returns the rules of a policy, and for one of the old form what it
// says in their place.
func rulesOf(spec *policyv1alpha1.OverrideSpec) []rule {
	path := field.NewPath("spec")
	if mistakes := affinity.CheckTargets(spec, path); len(mistakes) > 0 {
		return []rule{{mistakes: mistakes}}
	}
	if len(spec.OverrideRules) == 0 {
		return []rule{compileRule(spec.TargetCluster, spec.Overriders, path)}
	}
	var rules []rule
	for i, r := range spec.OverrideRules {
		rules = append(rules, compileRule(r.TargetCluster, r.Overriders, path.Child("overrideRules").Index(i)))
	}
	return rules
}

func compileRule(target *policyv1alpha1.ClusterAffinity, overriders policyv1alpha1.Overriders, path *field.Path) rule {
	clusters, mistakes := affinity.CompileAffinity(target, path.Child("targetCluster"))
	return rule{clusters: clusters, mistakes: mistakes, overriders: overriders, path: path.Child("overriders")}
}
