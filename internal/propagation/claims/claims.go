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

// Of returns the marks of a policy.
func Of(policy policyv1alpha1.Policy) Marks {
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

// ID returns the permanent ID of a policy, "" if it has none yet.
func ID(policy policyv1alpha1.Policy) string {
	for _, id := range Of(policy).Labels {
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

// Change returns what has to become of the labels and annotations of an object
// for the marks to be the only ones: the new value of each key, nil for one that
// goes. The zero value of Marks claims nothing.
func (m Marks) Change(object metav1.Object) (labels, annotations map[string]any) {
	return difference(LabelKeys(), object.GetLabels(), m.Labels), difference(AnnotationKeys(), object.GetAnnotations(), m.Annotations)
}

func difference(keys []string, has, wants map[string]string) map[string]any {
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

// Claims tells whether the object says that the policy claims it.
func Claims(policy policyv1alpha1.Policy, object metav1.Object) bool {
	for key, id := range Of(policy).Labels {
		if id != "" && object.GetLabels()[key] == id {
			return true
		}
	}
	return false
}

// Sends tells whether a policy sends an object by a binding: the binding says so, and the
// policy selects the object.
func Sends(policy policyv1alpha1.Policy, object selector.Object, binding metav1.Object) bool {
	return Claims(policy, binding) && new(Selections).matching(object, policy) != selector.None
}

// Holds reports whether a policy has claimed an object that it selects. Whoever may write the
// object or its binding can give either any marks: they count only for a policy that selects the
// object, and those of the binding only if the object has none.
func Holds(policy policyv1alpha1.Policy, object selector.Object, binding metav1.Object) bool {
	return Claims(policy, Holder(object, binding)) && new(Selections).matching(object, policy) != selector.None
}

// Claimed tells whether the object says that some policy claims it.
func Claimed(object metav1.Object) bool {
	return slices.ContainsFunc(LabelKeys(), func(key string) bool { return object.GetLabels()[key] != "" })
}

// Holder returns what says who has claimed an object: its binding, if the object
// does not. There may be none.
func Holder(object, binding metav1.Object) metav1.Object {
	if binding == nil || Claimed(object) {
		return object
	}
	return binding
}

// match is a policy that matches an object.
type match struct {
	policy   policyv1alpha1.Policy
	implicit selector.Priority // how exact the selector is
	version  int               // the place of the version that it names
}

// Choose returns the policy that is to claim an object; nil if none matches. Holder
// says who has claimed it: the object itself or, if that could not be marked, its
// binding. The one that has claimed it keeps it for as long as it matches, unless preempts
// says that policies may take objects over and one of a greater priority does. A
// PropagationPolicy of the namespace comes before any ClusterPropagationPolicy;
// of the same kind the greatest priority comes first, then the most exact
// selector, then the name.
func (s *Selections) Choose(object selector.Object, holder metav1.Object, policies []policyv1alpha1.Policy, preempts bool) policyv1alpha1.Policy {
	policy, _ := s.ChooseVersion([]selector.Object{object}, holder, policies, preempts)
	return policy
}

// ChooseVersion is Choose for an object that policies may select in one API version or
// another. It also returns the place of the version in which the policy wants it: of
// several, the one that its most exact selector names.
func (s *Selections) ChooseVersion(
	versions []selector.Object, holder metav1.Object, policies []policyv1alpha1.Policy, preempts bool,
) (policy policyv1alpha1.Policy, version int) {
	var matches []match
	var present *match
	for _, policy := range policies {
		m := match{policy: policy}
		for at, object := range versions {
			if implicit := s.matching(object, policy); implicit > m.implicit {
				m.implicit = implicit
				m.version = at
			}
		}
		if m.implicit == selector.None {
			continue
		}
		matches = append(matches, m)
		if Claims(policy, holder) {
			present = &m
		}
	}
	if present != nil {
		matches = slices.DeleteFunc(matches, func(m match) bool { return !preempts || !m.preempts(*present) })
		if len(matches) == 0 {
			return present.policy, present.version
		}
	}
	if len(matches) == 0 {
		return nil, 0
	}
	best := slices.MinFunc(matches, match.compare)
	return best.policy, best.version
}

// compare orders matches, the best first.
func (m match) compare(other match) int {
	cluster := func(m match) int { // 0 for a policy of the namespace
		if m.policy.GetNamespace() == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(cluster(m), cluster(other)),
		cmp.Compare(priority(other.policy), priority(m.policy)),
		cmp.Compare(other.implicit, m.implicit),
		cmp.Compare(m.policy.GetName(), other.policy.GetName()),
	)
}

// preempts tells whether a policy takes an object over from the one that has it:
// a ClusterPropagationPolicy never from a PropagationPolicy.
func (m match) preempts(present match) bool {
	if m.policy.PropagationSpec().Preemption != policyv1alpha1.PreemptAlways || m.policy == present.policy {
		return false
	}
	mine := m.policy.GetNamespace() != ""
	theirs := present.policy.GetNamespace() != ""
	if mine != theirs {
		return mine
	}
	return priority(m.policy) > priority(present.policy)
}

func priority(policy policyv1alpha1.Policy) int32 {
	if p := policy.PropagationSpec().Priority; p != nil {
		return *p
	}
	return 0
}
