// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// clustersTold is how many clusters a note names.
const clustersTold = 10

// BindingReference returns what an event about a binding is about.
func BindingReference(b workv1alpha2.Binding) corev1.ObjectReference {
	kind := "ResourceBinding"
	if b.GetNamespace() == "" {
		kind = "ClusterResourceBinding"
	}
	return corev1.ObjectReference{
		APIVersion: workv1alpha2.GroupVersion.String(), Kind: kind, Namespace: b.GetNamespace(), Name: b.GetName(), UID: b.GetUID(),
	}
}

// aboutObject returns an event about the object of a binding; none if the object is not
// in the namespace of the binding: whoever writes a binding can name any object, and
// would have events written into any namespace.
func aboutObject(b workv1alpha2.Binding, eventType, reason, note string) []Event {
	of := b.BindingSpec().Resource
	if of.Namespace != b.GetNamespace() {
		return nil
	}
	about := corev1.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, UID: of.UID}
	return []Event{{About: about, Type: eventType, Reason: reason, Note: note}}
}

// SuccessEvents returns events about a binding and its object.
func SuccessEvents(b workv1alpha2.Binding, reason, note string) []Event {
	return bindingAndObjectEvents(b, corev1.EventTypeNormal, reason, note)
}

// FailureEvents returns warnings about a binding and its object.
func FailureEvents(b workv1alpha2.Binding, reason, note string) []Event {
	return bindingAndObjectEvents(b, corev1.EventTypeWarning, reason, note)
}

func bindingAndObjectEvents(b workv1alpha2.Binding, eventType, reason, note string) []Event {
	return append([]Event{{About: BindingReference(b), Type: eventType, Reason: reason, Note: note}}, aboutObject(b, eventType, reason, note)...)
}

// bindingChangeEvents returns what has happened between two states of a binding.
func bindingChangeEvents(before, after workv1alpha2.Binding) []Event {
	was := before.BindingStatus()
	is := after.BindingStatus()
	all := requirementEvents(before.BindingSpec(), after)
	scheduled := meta.FindStatusCondition(is.Conditions, workv1alpha2.BindingConditionScheduled)
	last := meta.FindStatusCondition(was.Conditions, workv1alpha2.BindingConditionScheduled)
	switch {
	case scheduled == nil || last != nil && was.LastScheduledTime.Equal(is.LastScheduledTime) && sameCondition(last, scheduled):
	case scheduled.Status == metav1.ConditionTrue:
		all = append(all, SuccessEvents(after, ReasonScheduleBindingSucceed, describeTargets(after.BindingSpec()))...)
	default:
		all = append(all, FailureEvents(after, ReasonScheduleBindingFailed, scheduled.Message)...)
	}
	if len(is.AggregatedStatus) > 0 && !equality.Semantic.DeepEqual(was.AggregatedStatus, is.AggregatedStatus) {
		all = append(all, SuccessEvents(after, ReasonAggregateStatusSucceed, "The status that clusters report was aggregated.")...)
	}
	if text := after.GetAnnotations()[workv1alpha2.AnnotationDependencies]; text != before.GetAnnotations()[workv1alpha2.AnnotationDependencies] {
		all = append(all, SuccessEvents(after, ReasonGetDependenciesSucceed, describeDependencies(text))...)
	}
	return all
}

// requirementEvents returns what has become known of the replicas and parts of an object.
func requirementEvents(was *workv1alpha2.ResourceBindingSpec, after workv1alpha2.Binding) []Event {
	is := after.BindingSpec()
	switch {
	case len(is.Components) > 0 && !equality.Semantic.DeepEqual(was.Components, is.Components):
		return aboutObject(after, corev1.EventTypeNormal, ReasonGetComponentsSucceed, fmt.Sprintf("The object has %d parts.", len(is.Components)))
	case is.ReplicaRequirements != nil && (was.Replicas != is.Replicas || !equality.Semantic.DeepEqual(was.ReplicaRequirements, is.ReplicaRequirements)):
		return aboutObject(after, corev1.EventTypeNormal, ReasonGetReplicasSucceed, fmt.Sprintf("The object asks for %d replicas.", is.Replicas))
	default:
		return nil
	}
}

// sameCondition reports whether two conditions say the same.
func sameCondition(a, b *metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// describeTargets says which clusters were chosen.
func describeTargets(spec *workv1alpha2.ResourceBindingSpec) string {
	var names []string
	for i, target := range spec.Clusters {
		if i == clustersTold {
			names = append(names, fmt.Sprintf("and %d more", len(spec.Clusters)-i))
			break
		}
		name := target.Name
		if target.Replicas > 0 {
			name += fmt.Sprintf(" (%d)", target.Replicas)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "No cluster was chosen, as none is to get the object."
	}
	return "The object goes to: " + strings.Join(names, ", ") + "."
}

// describeDependencies says what the object of a binding needs, as its annotation has it.
func describeDependencies(annotation string) string {
	if annotation == "" {
		return "The object no longer needs others."
	}
	return "The object needs: " + annotation
}

// newlyRequired returns the bindings of its namespace whose clusters a binding has been
// handed on between two states. Of another namespace none are, whatever it says.
func newlyRequired(before, after workv1alpha2.Binding) []types.NamespacedName {
	earlier := before.BindingSpec().RequiredBy
	later := after.BindingSpec().RequiredBy
	was := make(map[types.NamespacedName]*workv1alpha2.BindingSnapshot, len(earlier))
	for i := range earlier {
		one := &earlier[i]
		was[types.NamespacedName{Namespace: one.Namespace, Name: one.Name}] = one
	}
	var keys []types.NamespacedName
	for i := range later {
		one := &later[i]
		key := types.NamespacedName{Namespace: one.Namespace, Name: one.Name}
		if one.Namespace == after.GetNamespace() && !equality.Semantic.DeepEqual(was[key], one) {
			keys = append(keys, key)
		}
	}
	return keys
}

// dependencySyncEvent tells that what the object of a binding needs goes where the object
// goes.
func dependencySyncEvent(b workv1alpha2.Binding) Event {
	return Event{
		About: BindingReference(b), Type: corev1.EventTypeNormal, Reason: ReasonSyncToDependenciesSucceed,
		Note: "The bindings of its dependencies have its clusters.",
	}
}
