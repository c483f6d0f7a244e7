// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// forecast is about one object.
type forecast struct {
	*HubState
	Subject

	now, then policyv1alpha1.Policy
	// after is the binding as it would be; nil is none.
	after workv1alpha2.Binding
	// stays says that the hub would change nothing.
	stays    bool
	decision forecastDecision
	notes    []string
	problems []string
}

func (f *forecast) addNote(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *forecast) addProblem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// forecastClaim finds the policy that has claimed the object, and the one that would.
func (f *forecast) forecastClaim() {
	if f.Now != nil {
		holder := claims.ClaimHolder(f.Now, f.Binding)
		if i := slices.IndexFunc(f.Present.Propagation, func(p policyv1alpha1.Policy) bool { return claims.PolicyClaimsObject(p, holder) }); i >= 0 {
			f.now = f.Present.Propagation[i]
		}
	}
	if f.reservedReason() != "" {
		return
	}
	holder := claims.ClaimHolder(f.Then, f.Binding)
	f.then = f.selections.ChoosePolicy(f.Then, holder, f.Planned.Propagation, false)
	if taker := f.selections.ChoosePolicy(f.Then, holder, f.Planned.Propagation, true); claims.PolicyDisplayName(taker) != claims.PolicyDisplayName(f.then) {
		f.addNote("%s takes the object over if the hub's feature gate PropagationPolicyPreemption is on.", claims.PolicyDisplayName(taker))
	}
	if f.then != nil && !f.hubServesObject() {
		f.addNote("%s selects it, but %s.", claims.PolicyDisplayName(f.then), scope.RefusalReason(f.Then.GetKind(), f.Then.GetNamespace()))
		f.then = nil
	}
	if f.then == nil && f.after != nil {
		f.addNote("No policy would claim it any more. What is in the clusters stays there, and follows the object but for its replicas.")
	}
}

// hubServesObject reports whether the hub sends objects of the kind from there.
func (f *forecast) hubServesObject() bool {
	labels := f.Then.GetLabels()
	if f.Then.GetNamespace() != "" {
		labels = f.NamespaceLabels
	}
	return f.Hub.ServesKind(f.Then.GroupVersionKind().GroupKind(), labels)
}

// reservedReason says why the object is never sent, "" if it may be.
func (f *forecast) reservedReason() string {
	return claims.ReservedReason(f.Then.GroupVersionKind().GroupKind(), f.Then, f.Fleet)
}

// isPolicyRefused reports whether the policy would not be applied, and notes why.
func (f *forecast) isPolicyRefused() bool {
	if why := f.reservedReason(); why != "" {
		f.addNote("%s.", strings.ToUpper(why[:1])+why[1:])
		return true
	}
	if f.then == nil {
		return false
	}
	spec := f.then.PropagationSpec()
	name := claims.PolicyDisplayName(f.then)
	if wrong := claims.CheckDependentOverrides(spec, field.NewPath("spec")); len(wrong) > 0 {
		f.addProblem("%s: %s", name, wrong.ToAggregate())
		return true
	}
	for _, override := range spec.DependentOverrides {
		if !f.hasOverridePolicy(override) {
			f.addProblem("%s: spec.dependentOverrides: it waits for override policy %q, which does not exist: create it", name, override)
			return true
		}
	}
	if asked := spec.SchedulePriority; asked != nil {
		if _, found := f.Priorities[asked.PriorityClassName]; !found {
			f.addProblem("%s: spec.schedulePriority: there is no PriorityClass %q: create it, or name another one", name, asked.PriorityClassName)
			return true
		}
	}
	if demand.IsActivationPostponed(f.then, f.Then, f.Binding) {
		f.addNote("%s is applied lazily (spec.activationPreference): it waits until the object itself changes.", name)
		return true
	}
	return false
}

// hasOverridePolicy reports whether there would be an override policy beside the policy.
func (f *forecast) hasOverridePolicy(name string) bool {
	if namespace := f.then.GetNamespace(); namespace != "" {
		return slices.ContainsFunc(f.Planned.Overrides, func(o policyv1alpha1.OverridePolicy) bool { return o.Namespace == namespace && o.Name == name })
	}
	return slices.ContainsFunc(f.Planned.ClusterOverrides, func(o policyv1alpha1.ClusterOverridePolicy) bool { return o.Name == name })
}

// objectToSend returns the object that would be sent.
func (f *forecast) objectToSend() *unstructured.Unstructured {
	if f.stays && f.Now != nil {
		return f.Now
	}
	return f.Then
}
