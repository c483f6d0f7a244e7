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

// Binding returns what an event about a binding is about.
func Binding(b workv1alpha2.Binding) corev1.ObjectReference {
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

// Succeeded returns events about a binding and its object.
func Succeeded(b workv1alpha2.Binding, reason, note string) []Event {
	return both(b, corev1.EventTypeNormal, reason, note)
}

// Failed returns warnings about a binding and its object.
func Failed(b workv1alpha2.Binding, reason, note string) []Event {
	return both(b, corev1.EventTypeWarning, reason, note)
}

func both(b workv1alpha2.Binding, eventType, reason, note string) []Event {
	return append([]Event{{About: Binding(b), Type: eventType, Reason: reason, Note: note}}, aboutObject(b, eventType, reason, note)...)
}

// ofBinding returns what has happened between two states of a binding.
func ofBinding(before, after workv1alpha2.Binding) []Event {
	was := before.BindingStatus()
	is := after.BindingStatus()
	all := asked(before.BindingSpec(), after)
	scheduled := meta.FindStatusCondition(is.Conditions, workv1alpha2.BindingConditionScheduled)
	last := meta.FindStatusCondition(was.Conditions, workv1alpha2.BindingConditionScheduled)
	switch {
	case scheduled == nil || last != nil && was.LastScheduledTime.Equal(is.LastScheduledTime) && same(last, scheduled):
	case scheduled.Status == metav1.ConditionTrue:
		all = append(all, Succeeded(after, ReasonScheduleBindingSucceed, chosen(after.BindingSpec()))...)
	default:
		all = append(all, Failed(after, ReasonScheduleBindingFailed, scheduled.Message)...)
	}
	if len(is.AggregatedStatus) > 0 && !equality.Semantic.DeepEqual(was.AggregatedStatus, is.AggregatedStatus) {
		all = append(all, Succeeded(after, ReasonAggregateStatusSucceed, "What the clusters report was summed up.")...)
	}
	if text := after.GetAnnotations()[workv1alpha2.AnnotationDependencies]; text != before.GetAnnotations()[workv1alpha2.AnnotationDependencies] {
		all = append(all, Succeeded(after, ReasonGetDependenciesSucceed, needs(text))...)
	}
	return all
}

// asked returns what has become known of the replicas and parts of an object.
func asked(was *workv1alpha2.ResourceBindingSpec, after workv1alpha2.Binding) []Event {
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

// same tells whether two conditions say the same.
func same(a, b *metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// chosen says which clusters were chosen.
func chosen(spec *workv1alpha2.ResourceBindingSpec) string {
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

// needs says what the object of a binding needs, as its annotation has it.
func needs(annotation string) string {
	if annotation == "" {
		return "The object needs no others any more."
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

// handedOn tells that what the object of a binding needs goes where the object
// goes.
func handedOn(b workv1alpha2.Binding) Event {
	return Event{
		About: Binding(b), Type: corev1.EventTypeNormal, Reason: ReasonSyncToDependenciesSucceed,
		Note: "The bindings of what the object needs have its clusters.",
	}
}
