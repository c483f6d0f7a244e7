// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// ObjectFacts are what decides about an object and its policy. Each decision says
// which of them it needs.
type ObjectFacts struct {
	Fleet view.Fleet
	// Policy is the one that claims the object, or is to: see claims.ChoosePolicy. Nil is
	// none.
	Policy policyv1alpha1.Policy
	// Unserved says that a shared hub does not send the object: see scope.
	Unserved bool
	// AbsentOverride is an override policy that the policy depends on and that does not
	// exist; "" if there is none.
	AbsentOverride string
	// Binding is that of the object; nil if it has none.
	Binding workv1alpha2.Binding
	Chain   interpret.Chain
	// Priority is that of the PriorityClass which the policy names. It is nil if it names
	// none, and if that does not exist, as AbsentClass says.
	Priority    *int32
	AbsentClass bool
	// Components says that objects with several pod templates are placed as a whole, and
	// Groups that workloads are kept together, or apart.
	Components, Groups bool
}

// DecideObject makes all decisions about an object up to what its binding is to ask for. The
// spec is set if the policy is Applied.
func DecideObject(object *unstructured.Unstructured, f ObjectFacts) (workv1alpha2.ResourceBindingSpec, Reason) {
	if reason := DecideClaim(object, f); reason.Code != Applied {
		return workv1alpha2.ResourceBindingSpec{}, reason
	}
	if reason := DecideActivation(object, f); reason.Code != Applied {
		return workv1alpha2.ResourceBindingSpec{}, reason
	}
	return DecideDemand(object, f)
}

// DecideClaim decides whether an object is sent to clusters, by a policy that can be
// applied. Its metadata are enough. It needs Fleet, Policy, Unserved and
// AbsentOverride. A policy that cannot be applied yet does not claim the object
// either, and what is there stays as it is.
func DecideClaim(object selector.Object, f ObjectFacts) Reason {
	kind := object.GetObjectKind().GroupVersionKind().GroupKind()
	if why := claims.ReservedReason(kind, object, f.Fleet); why != "" {
		return Reason{Code: Reserved, Detail: why}
	}
	if f.Policy == nil {
		return Reason{Code: Unclaimed}
	}
	wrong := claims.CheckAwaitedNames(f.Policy.PropagationSpec(), field.NewPath("spec"))
	switch {
	case f.Unserved:
		return f.policyReason(Unserved, scope.RefusalReason(kind.Kind, object.GetNamespace()))
	case len(wrong) > 0:
		return f.policyReason(OverridesInvalid, wrong.ToAggregate().Error())
	case f.AbsentOverride != "":
		return f.policyReason(OverrideAbsent, f.AbsentOverride)
	}
	if wrong := claims.CheckCopies(f.Policy.PropagationSpec(), field.NewPath("spec")); len(wrong) > 0 {
		return f.policyReason(PolicyTooLarge, wrong.ToAggregate().Error())
	}
	return f.policyReason(Applied, "")
}

func (f ObjectFacts) policyReason(code ReasonCode, detail string) Reason {
	return Reason{Code: code, Policy: f.Policy, Detail: detail}
}

// DecideActivation decides whether a lazy policy waits until somebody changes the object
// that it claims: it is Postponed, or Applied. It needs Policy, Binding and Chain.
func DecideActivation(object *unstructured.Unstructured, f ObjectFacts) Reason {
	if demand.IsActivationPostponed(f.Policy, object, f.Binding) && !hasChangedWithPolicy(object, f) {
		return f.policyReason(Postponed, "")
	}
	return f.policyReason(Applied, "")
}

// hasChangedWithPolicy reports whether an object was changed at the same time as its policy: its
// binding does not say how it was then, and has other replicas.
func hasChangedWithPolicy(object *unstructured.Unstructured, f ObjectFacts) bool {
	if !demand.IsBoundByPolicy(f.Binding) || f.Binding.GetAnnotations()[demand.AnnotationTemplate] != "" {
		return false
	}
	wanted, problem := demand.BindingSpecFor(object, f.Policy, f.Chain, nil)
	is := f.Binding.BindingSpec()
	return problem != nil || wanted.Replicas != is.Replicas || !equality.Semantic.DeepEqual(wanted.ReplicaRequirements, is.ReplicaRequirements)
}

// DecideDemand decides what the binding of an object is to ask for, but for what others
// decide. It needs Policy, Chain, Priority, AbsentClass and the gates. Unless the
// policy is Applied, the policy has claimed the object, and the binding stays as it
// is.
func DecideDemand(object *unstructured.Unstructured, f ObjectFacts) (workv1alpha2.ResourceBindingSpec, Reason) {
	if f.AbsentClass {
		return workv1alpha2.ResourceBindingSpec{}, f.policyReason(ClassAbsent, f.Policy.PropagationSpec().SchedulePriority.PriorityClassName)
	}
	spec, err := demand.BindingSpecFor(object, f.Policy, f.Chain, f.Priority)
	if err != nil {
		return workv1alpha2.ResourceBindingSpec{}, Reason{Code: ReplicasUnknown, Policy: f.Policy, Problem: err}
	}
	if f.Components {
		if err := demand.ComposeComponents(&spec, object, f.Chain); err != nil {
			return workv1alpha2.ResourceBindingSpec{}, Reason{Code: ComponentsUnknown, Policy: f.Policy, Problem: err}
		}
	}
	if f.Groups {
		spec.WorkloadAffinityGroups = demand.AffinityGroupsOf(object, f.Policy)
	}
	return spec, f.policyReason(Applied, "")
}
