// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims decides which policy sends an object of the hub to clusters. At
// most one does: it claims the object by labels and annotations that name it.
//
// The package is pure.
package claims

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// EventFailed is the reason of Events on an object that say why a policy is not applied to it.
// One that is related to a policy says why the hub does not let that claim the object.
const EventFailed = "ApplyPolicyFailed"

// Marks are the labels and annotations by which a policy claims an object.
type Marks struct {
	Labels, Annotations map[string]string
}

// MarksForPolicy returns the marks of a policy.
func MarksForPolicy(policy policyv1alpha1.Policy) Marks {
	if policy.GetNamespace() == "" {
		id := policy.GetLabels()[policyv1alpha1.LabelClusterPropagationPolicyID]
		return Marks{
			Labels:      map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: id},
			Annotations: map[string]string{policyv1alpha1.AnnotationClusterPropagationPolicyName: policy.GetName()},
		}
	}
	return Marks{
		Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: policy.GetLabels()[policyv1alpha1.LabelPropagationPolicyID]},
		Annotations: map[string]string{
			policyv1alpha1.AnnotationPropagationPolicyNamespace: policy.GetNamespace(),
			policyv1alpha1.AnnotationPropagationPolicyName:      policy.GetName(),
		},
	}
}

// PermanentPolicyID returns the permanent ID of a policy, "" if it has none yet.
func PermanentPolicyID(policy policyv1alpha1.Policy) string {
	for _, id := range MarksForPolicy(policy).Labels {
		return id
	}
	return ""
}

// LabelKeys are the keys of all labels that claim an object.
func LabelKeys() []string {
	return []string{policyv1alpha1.LabelPropagationPolicyID, policyv1alpha1.LabelClusterPropagationPolicyID}
}

// AnnotationKeys are the keys of all annotations that claim an object.
func AnnotationKeys() []string {
	return []string{
		policyv1alpha1.AnnotationPropagationPolicyNamespace, policyv1alpha1.AnnotationPropagationPolicyName,
		policyv1alpha1.AnnotationClusterPropagationPolicyName,
	}
}

// MetadataChanges returns what has to become of the labels and annotations of an object
// for the marks to be the only ones: the new value of each key, nil for one that
// goes. The zero value of Marks claims nothing.
func (m Marks) MetadataChanges(object metav1.Object) (labels, annotations map[string]any) {
	return diffMetadata(LabelKeys(), object.GetLabels(), m.Labels), diffMetadata(AnnotationKeys(), object.GetAnnotations(), m.Annotations)
}

func diffMetadata(keys []string, has, wants map[string]string) map[string]any {
	changes := map[string]any{}
	for _, key := range keys {
		value, wanted := wants[key]
		present, is := has[key]
		switch {
		case wanted && (!is || present != value):
			changes[key] = value
		case !wanted && is:
			changes[key] = nil
		}
	}
	return changes
}

// PolicyClaimsObject reports whether the object says that the policy claims it.
func PolicyClaimsObject(policy policyv1alpha1.Policy, object metav1.Object) bool {
	for key, id := range MarksForPolicy(policy).Labels {
		if id != "" && object.GetLabels()[key] == id {
			return true
		}
	}
	return false
}

// PolicySendsObject reports whether a policy sends an object by a binding: the binding says so, and the
// policy selects the object.
func PolicySendsObject(policy policyv1alpha1.Policy, object selector.Object, binding metav1.Object) bool {
	return PolicyClaimsObject(policy, binding) && new(Selections).matchPriority(object, policy) != selector.None
}

// PolicyHoldsObject reports whether a policy has claimed an object that it selects. Whoever may write the
// object or its binding can give either any marks: they count only for a policy that selects the
// object, and those of the binding only if the object has none.
func (s *Selections) PolicyHoldsObject(policy policyv1alpha1.Policy, object selector.Object, binding metav1.Object) bool {
	return PolicyClaimsObject(policy, ClaimHolder(object, binding)) && s.matchPriority(object, policy) != selector.None
}

// HasClaimMarks reports whether the object says that some policy claims it.
func HasClaimMarks(object metav1.Object) bool {
	return slices.ContainsFunc(LabelKeys(), func(key string) bool { return object.GetLabels()[key] != "" })
}

// ClaimHolder returns what says who has claimed an object: its binding, if the object
// does not. There may be none.
func ClaimHolder(object, binding metav1.Object) metav1.Object {
	if binding == nil || HasClaimMarks(object) {
		return object
	}
	return binding
}

// PolicyMatch is a policy, and how exactly it selects an object.
type PolicyMatch struct {
	Policy policyv1alpha1.Policy
	Exact  selector.Priority

	version int // the place of the version that it names
}

// ChoosePolicy returns the policy that is to claim an object; nil if none matches. Holder
// says who has claimed it: the object itself or, if that could not be marked, its
// binding. The one that has claimed it keeps it for as long as it matches, unless preempts
// says that policies may take objects over and one of a greater priority does. A
// PropagationPolicy of the namespace comes before any ClusterPropagationPolicy;
// of the same kind the greatest priority comes first, then the most exact
// selector, then the name.
func (s *Selections) ChoosePolicy(object selector.Object, holder metav1.Object, policies []policyv1alpha1.Policy, preempts bool) policyv1alpha1.Policy {
	policy, _ := s.ChooseVersion([]selector.Object{object}, holder, policies, preempts)
	return policy
}

// ChooseVersion is ChoosePolicy for an object that policies may select in one API version or
// another. It also returns the place of the version in which the policy wants it: of
// several, the one that its most exact selector names.
func (s *Selections) ChooseVersion(
	versions []selector.Object, holder metav1.Object, policies []policyv1alpha1.Policy, preempts bool,
) (policy policyv1alpha1.Policy, version int) {
	var matches []PolicyMatch
	var present *PolicyMatch
	for _, policy := range policies {
		m := PolicyMatch{Policy: policy}
		for at, object := range versions {
			if exact := s.matchPriority(object, policy); exact > m.Exact {
				m.Exact = exact
				m.version = at
			}
		}
		if m.Exact == selector.None {
			continue
		}
		matches = append(matches, m)
		if PolicyClaimsObject(policy, holder) {
			present = &m
		}
	}
	if present != nil {
		matches = slices.DeleteFunc(matches, func(m PolicyMatch) bool { return !preempts || !m.PreemptsClaim(*present) })
		if len(matches) == 0 {
			return present.Policy, present.version
		}
	}
	if len(matches) == 0 {
		return nil, 0
	}
	best := slices.MinFunc(matches, PolicyMatch.ComparePrecedence)
	return best.Policy, best.version
}

// ComparePrecedence orders policies that select an object, the best first.
func (m PolicyMatch) ComparePrecedence(other PolicyMatch) int {
	cluster := func(m PolicyMatch) int { // 0 for a policy of the namespace
		if m.Policy.GetNamespace() == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(cluster(m), cluster(other)),
		cmp.Compare(policyPriority(other.Policy), policyPriority(m.Policy)),
		cmp.Compare(other.Exact, m.Exact),
		cmp.Compare(m.Policy.GetName(), other.Policy.GetName()),
	)
}

// PreemptsClaim reports whether a policy takes an object over from the one that has it:
// a ClusterPropagationPolicy never from a PropagationPolicy.
func (m PolicyMatch) PreemptsClaim(present PolicyMatch) bool {
	if m.Policy.PropagationSpec().Preemption != policyv1alpha1.PreemptAlways || m.Policy == present.Policy {
		return false
	}
	mine := m.Policy.GetNamespace() != ""
	theirs := present.Policy.GetNamespace() != ""
	if mine != theirs {
		return mine
	}
	return policyPriority(m.Policy) > policyPriority(present.Policy)
}

func policyPriority(policy policyv1alpha1.Policy) int32 {
	if p := policy.PropagationSpec().Priority; p != nil {
		return *p
	}
	return 0
}
