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

	policy   policyv1alpha1.Policy
	spec     *policyv1alpha1.PropagationSpec
	deleting bool
	exact    selector.Priority
}

// rankPolicies returns the policy that claims the object, and the others that select
// it or come near, the best first.
func (f *ObjectFacts) rankPolicies() (claims *Policy, others []Policy) {
	all := f.policyContenders()
	claimed := f.claimedBy()
	winner := slices.IndexFunc(all, func(c contender) bool {
		return claimed != nil && c.Kind == claimed.Kind && c.Namespace == claimed.Namespace && c.Name == claimed.Name
	})
	if winner >= 0 {
		claimed = &all[winner].Policy
		if claimed.SelectsBy == "" {
			claimed.Reason = "it does not select the object any more: the hub's propagation controller lets go of it in a moment"
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
	case c.exact == selector.None:
		return c.Reason != ""
	case winner >= 0:
		c.Reason = c.lossReason(all[winner])
	case claimed != nil:
		c.Reason = "another policy has claimed the object"
	}
	return true
}

// policyContenders returns all policies, the best first.
func (f *ObjectFacts) policyContenders() []contender {
	var all []contender
	for i := range f.Policies {
		p := &f.Policies[i]
		all = append(all, f.newContender(Policy{Kind: kindPolicy, Namespace: p.Namespace, Name: p.Name}, p))
	}
	for i := range f.ClusterPolicies {
		p := &f.ClusterPolicies[i]
		all = append(all, f.newContender(Policy{Kind: kindClusterPolicy, Name: p.Name}, p))
	}
	slices.SortFunc(all, compareContenders)
	return all
}

func (f *ObjectFacts) newContender(p Policy, policy policyv1alpha1.Policy) contender {
	spec := policy.PropagationSpec()
	c := contender{Policy: p, policy: policy, spec: spec, deleting: policy.GetDeletionTimestamp() != nil}
	if spec.Priority != nil {
		c.Priority = *spec.Priority
	}
	selectors, problems := selector.CompileSelectors(p.Namespace, spec.ResourceSelectors, field.NewPath("spec", "resourceSelectors"))
	c.exact = selectors.PriorityOf(f.Template)
	c.SelectsBy = map[selector.Priority]string{selector.ByName: "name", selector.ByLabels: "labels", selector.ByKind: "kind"}[c.exact]
	switch {
	case c.deleting:
		c.exact = selector.None
		c.Reason = "it is being deleted"
	case c.exact == selector.None && len(problems) > 0:
		c.Reason = problems.ToAggregate().Error()
	case c.exact == selector.None:
		c.Reason = f.nearestMismatch(p.Namespace, spec.ResourceSelectors)
	}
	return c
}

// compareContenders has the policy first that wins, if none has claimed the object yet, and
// those that do not select it last.
func compareContenders(a, b contender) int {
	return cmp.Or(
		cmp.Compare(contenderRank(a), contenderRank(b)),
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(b.exact, a.exact),
		strings.Compare(a.Name, b.Name),
	)
}

func contenderRank(c contender) int {
	switch {
	case c.exact == selector.None && c.Kind == kindClusterPolicy:
		return 3
	case c.exact == selector.None:
		return 2
	case c.Kind == kindClusterPolicy:
		return 1
	default:
		return 0
	}
}

// lossReason says why a policy that selects the object does not claim it, although
// another one does.
func (c contender) lossReason(winner contender) string {
	if winner.exact == selector.None {
		return "it selects the object, and waits for the other to let go of it"
	}
	if c.preempts(winner) {
		return "it takes the object over if feature gate PropagationPolicyPreemption of the hub is on: in a moment then"
	}
	if compareContenders(c, winner) < 0 {
		return "it would come first, but an object stays with the policy that has claimed it"
	}
	switch {
	case c.Kind != winner.Kind:
		return "a PropagationPolicy comes before any ClusterPropagationPolicy"
	case c.Priority != winner.Priority:
		return fmt.Sprintf("its priority %d is less than %d", c.Priority, winner.Priority)
	case c.exact != winner.exact:
		return fmt.Sprintf("it selects by %s, which is less exact than by %s", c.SelectsBy, winner.SelectsBy)
	default:
		return "of equal policies the first by name comes first"
	}
}

// preempts reports whether a policy may take the object over from the one that has
// claimed it.
func (c contender) preempts(holder contender) bool {
	if c.spec.Preemption != policyv1alpha1.PreemptAlways {
		return false
	}
	return contenderRank(c) < contenderRank(holder) || contenderRank(c) == contenderRank(holder) && c.Priority > holder.Priority
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
