// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// terminating: an object with a deletionTimestamp goes away, whatever else it
// says (kstatus: Terminating).
func terminating(object map[string]any, kind schema.GroupKind) (Health, bool) {
	if fields.Get(object, "metadata", "deletionTimestamp") == nil {
		return Health{}, false
	}
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		return namespaceGoing(object), true
	}
	message := "The object is being deleted."
	if names := finalizers(object); names != "" {
		message = "The object is being deleted and waits for its finalizers: " + names + "."
	}
	return Health{Terminating, "Deleting", message}, true
}

// unobserved: a status that is about an older generation says nothing about
// this one (kstatus: InProgress).
func unobserved(object map[string]any) (Health, bool) {
	observed, ok := fields.Int(object, "status", "observedGeneration")
	if !ok {
		return Health{}, false
	}
	generation, ok := fields.Int(object, "metadata", "generation")
	if !ok || observed >= generation {
		return Health{}, false
	}
	return progressing("NotObserved", "The controller has seen generation %d of the object, which has generation %d.",
		observed, generation), true
}

// declared: Stalled and Reconciling are the two conditions by which kstatus
// asks controllers to tell that they failed or are at work.
func declared(object map[string]any) (Health, bool) {
	if c := fields.ConditionOf(object, "Stalled"); c.True() {
		return degraded(reasonOr(c.Reason, "Stalled"), "%s", because("The controller has given up", c.Message)), true
	}
	if c := fields.ConditionOf(object, "Reconciling"); c.True() {
		return progressing(reasonOr(c.Reason, "Reconciling"), "%s", because("The controller is at work", c.Message)), true
	}
	return Health{}, false
}

// ready: an object without a rule of its own is healthy unless a condition
// Ready says that it is not; a controller that has not judged this generation
// yet leaves it Progressing.
func ready(object map[string]any) Health {
	c := fields.ConditionOf(object, "Ready")
	generation := fields.IntOr(0, object, "metadata", "generation")
	switch {
	case !c.Exists():
		return healthy("Exists", "The object exists and reports nothing that is wrong.")
	case c.ObservedGeneration != 0 && c.ObservedGeneration < generation:
		return progressing("NotObserved", "Condition Ready is about generation %d of the object, which has generation %d.",
			c.ObservedGeneration, generation)
	case c.True():
		return healthy("Ready", "%s", because("Condition Ready is True", c.Message))
	case c.False():
		return progressing(reasonOr(c.Reason, "NotReady"), "%s", because("Condition Ready is False", c.Message))
	default:
		return progressing(reasonOr(c.Reason, "NotReady"), "%s", because("Condition Ready is Unknown", c.Message))
	}
}

// seen tells whether the controller of a kind that reports an
// observedGeneration has seen the object at all.
func seen(object map[string]any) (Health, bool) {
	if _, ok := fields.Int(object, "status", "observedGeneration"); ok {
		return Health{}, true
	}
	return progressing("NotObserved", "The controller has not seen the object yet."), false
}
