// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
)

// forecast is about one object.
type forecast struct {
	*HubState
	Subject

	now, then policyv1alpha1.Policy
	// after is the binding as it would be; nil is none.
	after    workv1alpha2.Binding
	decided  forecastDecision
	notes    []string
	problems []string
}

func (f *forecast) addNote(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *forecast) addProblem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// forecastDecisions finds the policy that has claimed the object and the one that would, and
// makes the binding what the hub would make it.
func (f *forecast) forecastDecisions() {
	if f.Now != nil {
		holder := claims.ClaimHolder(f.Now, f.Binding)
		if i := slices.IndexFunc(f.Present.Propagation, func(p policyv1alpha1.Policy) bool { return claims.PolicyClaimsObject(p, holder) }); i >= 0 {
			f.now = f.Present.Propagation[i]
		}
	}
	holder := claims.ClaimHolder(f.Then, f.Binding)
	chosen := f.selections.ChoosePolicy(f.Then, holder, f.Planned.Propagation, false)
	spec, reason := decision.DecideObject(f.Then, f.objectFacts(chosen))
	taker := f.selections.ChoosePolicy(f.Then, holder, f.Planned.Propagation, true)
	if reason.Code != decision.Reserved && claims.PolicyDisplayName(taker) != claims.PolicyDisplayName(chosen) {
		f.addNote("%s takes the object over if the hub's feature gate PropagationPolicyPreemption is on.", claims.PolicyDisplayName(taker))
	}
	switch reason.Code {
	case decision.Reserved:
		f.addNote("%s", reason.ToSentence())
		f.after = nil
	case decision.Unclaimed, decision.Unserved:
		f.noteRelease(reason)
	case decision.OverridesInvalid, decision.PolicyTooLarge, decision.OverrideAbsent:
		f.addProblem("%s", reason.ToClause())
		f.then = f.now
	case decision.Postponed:
		f.addNote("%s", reason.ToSentence())
		f.then = chosen
	case decision.Applied:
		f.then = chosen
		f.forecastBinding(spec)
	default:
		f.addProblem("%s", reason.ToClause())
		f.then = chosen
	}
}

// noteRelease notes what becomes of an object that no policy would send.
func (f *forecast) noteRelease(reason decision.Reason) {
	if reason.Code == decision.Unserved {
		f.addNote("%s", reason.ToSentence())
	}
	if f.after != nil {
		f.addNote("No policy would claim it anymore. What is in the clusters stays there, and follows the object except for its replicas.")
	}
}

// objectFacts are what the hub would decide by, with the policy that would claim the object. Of
// feature gates those are taken to be on that bindings show.
func (f *forecast) objectFacts(policy policyv1alpha1.Policy) decision.ObjectFacts {
	facts := decision.ObjectFacts{Fleet: f.Fleet, Policy: policy, Unserved: !f.hubServesObject(), Binding: f.Binding, Chain: f.Chain, Groups: true}
	facts.Components = f.Binding != nil && len(f.Binding.BindingSpec().Components) > 0
	if policy == nil {
		return facts
	}
	spec := policy.PropagationSpec()
	if i := slices.IndexFunc(spec.DependentOverrides, func(name string) bool { return !f.hasOverridePolicy(policy, name) }); i >= 0 {
		facts.AbsentOverride = spec.DependentOverrides[i]
	}
	if asked := spec.SchedulePriority; asked != nil {
		value, found := f.Priorities[asked.PriorityClassName]
		facts.Priority = &value
		facts.AbsentClass = !found
	}
	return facts
}

// hubServesObject reports whether the hub sends objects of the kind from there.
func (f *forecast) hubServesObject() bool {
	labels := f.Then.GetLabels()
	if f.Then.GetNamespace() != "" {
		labels = f.NamespaceLabels
	}
	return f.Hub.ServesKind(f.Then.GroupVersionKind().GroupKind(), labels)
}

// hasOverridePolicy reports whether there would be an override policy beside a policy.
func (f *forecast) hasOverridePolicy(policy policyv1alpha1.Policy, name string) bool {
	if namespace := policy.GetNamespace(); namespace != "" {
		return slices.ContainsFunc(f.Planned.Overrides, func(o policyv1alpha1.OverridePolicy) bool { return o.Namespace == namespace && o.Name == name })
	}
	return slices.ContainsFunc(f.Planned.ClusterOverrides, func(o policyv1alpha1.ClusterOverridePolicy) bool { return o.Name == name })
}
