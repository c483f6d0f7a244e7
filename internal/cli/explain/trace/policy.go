// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// Kinds of policies.
const (
	kindPolicy        = "PropagationPolicy"
	kindClusterPolicy = "ClusterPropagationPolicy"
)

// contender is a policy, and how exactly it selects the object.
type contender struct {
	Policy

	match claims.PolicyMatch
}

// rankPolicies returns the policy that claims the object, and the others that select
// it or come near, the best first.
func (f *ObjectFacts) rankPolicies() (claiming *Policy, others []Policy) {
	all := f.policyContenders()
	claimed := f.claimedBy()
	winner := slices.IndexFunc(all, func(c contender) bool {
		return claimed != nil && c.Kind == claimed.Kind && c.Namespace == claimed.Namespace && c.Name == claimed.Name
	})
	if winner >= 0 {
		claimed = &all[winner].Policy
		if claimed.SelectsBy == "" {
			claimed.Reason = "it no longer selects the object: the hub's propagation controller releases it in a moment"
		}
	}
	for i, c := range all {
		if i != winner && c.explainLoss(claimed, all, winner) {
			others = append(others, c.Policy)
		}
	}
	return claimed, others
}

// explainLoss says why a policy that selects the object does not claim it, if another
// one does. It returns false for one that is about something else.
func (c *contender) explainLoss(claimed *Policy, all []contender, winner int) bool {
	switch {
	case c.match.Exact == selector.None:
		return c.Reason != ""
	case winner >= 0:
		c.Reason = decision.DecideContest(c.match, all[winner].match).ToClause()
	case claimed != nil:
		c.Reason = "another policy has claimed the object"
	}
	return true
}

// policyContenders returns all policies, the best first, and those that do not select it last.
func (f *ObjectFacts) policyContenders() []contender {
	var all []contender
	for _, p := range f.allPolicies() {
		all = append(all, f.newContender(p))
	}
	slices.SortFunc(all, func(a, b contender) int {
		return cmp.Or(cmp.Compare(min(b.match.Exact, selector.ByKind), min(a.match.Exact, selector.ByKind)), a.match.ComparePrecedence(b.match))
	})
	return all
}

func (f *ObjectFacts) allPolicies() []policyv1alpha1.Policy {
	var all []policyv1alpha1.Policy
	for i := range f.Policies {
		all = append(all, &f.Policies[i])
	}
	for i := range f.ClusterPolicies {
		all = append(all, &f.ClusterPolicies[i])
	}
	return all
}

func (f *ObjectFacts) newContender(policy policyv1alpha1.Policy) contender {
	spec := policy.PropagationSpec()
	c := contender{Policy: identifyPolicy(policy), match: claims.PolicyMatch{Policy: policy}}
	selectors, problems := selector.CompileSelectors(c.Namespace, spec.ResourceSelectors, field.NewPath("spec", "resourceSelectors"))
	exact := selectors.PriorityOf(f.Template)
	c.SelectsBy = decision.SelectorName(exact)
	switch {
	case policy.GetDeletionTimestamp() != nil:
		c.Reason = "it is being deleted"
	case exact == selector.None && len(problems) > 0:
		c.Reason = problems.ToAggregate().Error()
	case exact == selector.None:
		c.Reason = f.nearestMismatch(c.Namespace, spec.ResourceSelectors)
	default:
		c.match.Exact = exact
	}
	return c
}

// identifyPolicy returns which policy one is.
func identifyPolicy(policy policyv1alpha1.Policy) Policy {
	p := Policy{Kind: kindPolicy, Namespace: policy.GetNamespace(), Name: policy.GetName()}
	if p.Namespace == "" {
		p.Kind = kindClusterPolicy
	}
	if priority := policy.PropagationSpec().Priority; priority != nil {
		p.Priority = *priority
	}
	return p
}

// claimedBy returns the policy that the object says it is claimed by.
func (f *ObjectFacts) claimedBy() *Policy {
	annotations := f.Template.GetAnnotations()
	if name := annotations[policyv1alpha1.AnnotationPropagationPolicyName]; name != "" {
		return &Policy{Kind: kindPolicy, Namespace: annotations[policyv1alpha1.AnnotationPropagationPolicyNamespace], Name: name, Reason: "it was not found"}
	}
	if name := annotations[policyv1alpha1.AnnotationClusterPropagationPolicyName]; name != "" {
		return &Policy{Kind: kindClusterPolicy, Name: name, Reason: "it was not found"}
	}
	return nil
}

// nearestMismatch says why selectors do not select the object: what is missing for the one
// that comes nearest. It is "" if none is about its kind.
func (f *ObjectFacts) nearestMismatch(namespace string, selectors []policyv1alpha1.ResourceSelector) string {
	best := 0
	reason := ""
	for _, s := range selectors {
		if !strings.EqualFold(s.Kind, f.Ref.Kind) {
			continue
		}
		if n, why := f.selectorMismatch(cmp.Or(namespace, s.Namespace), s); n > best {
			best = n
			reason = why
		}
	}
	return reason
}

// selectorMismatch returns how far a selector for the kind of the object comes, and why no
// further.
func (f *ObjectFacts) selectorMismatch(namespace string, s policyv1alpha1.ResourceSelector) (int, string) {
	switch {
	case s.Kind != f.Ref.Kind:
		return 1, fmt.Sprintf("it selects kind %q, which is spelled %s", s.Kind, f.Ref.Kind)
	case s.APIVersion != f.Ref.APIVersion:
		return 1, fmt.Sprintf("it selects apiVersion %s, and the hub serves it as %s", s.APIVersion, f.Ref.APIVersion)
	case namespace != "" && f.Ref.Namespace == "":
		return 2, "it selects only in namespace " + namespace + ", and the object is in none"
	case namespace != "" && namespace != f.Ref.Namespace:
		return 2, "it selects only in namespace " + namespace
	case s.Name != "":
		return 3, fmt.Sprintf("it selects the one with name %q", s.Name)
	default:
		return 4, fmt.Sprintf("it selects labels %q, and the object has %q", metav1.FormatLabelSelector(s.LabelSelector), labels.Set(f.Template.GetLabels()))
	}
}
