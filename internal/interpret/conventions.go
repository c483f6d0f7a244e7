// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// AssessHealth judges an object, however odd. All kinds are judged by the conventions
// that kstatus (sigs.k8s.io/cli-utils/pkg/kstatus) describes first:
// metadata.deletionTimestamp, status.observedGeneration, and the conditions
// Stalled and Reconciling; then by what is known of the kind, or else by the usual
// shape: conditions Ready and Available, and counters of replicas.
func (c Chain) AssessHealth(object *unstructured.Unstructured) health.Health {
	if object == nil || object.Object == nil {
		return health.Unknown.WithReason("NoObject", "There is no object.")
	}
	known := c.Operations(object.GroupVersionKind())
	if h, ok := terminating(object.Object, known); ok {
		return h
	}
	if !readable(object.Object) {
		return health.Unknown.WithReason("StatusNotReadable", "The object's status is not an object.")
	}
	if h, ok := unobserved(object.Object); ok {
		return h
	}
	if h, ok := declared(object.Object); ok {
		return h
	}
	if known.Health != nil {
		return known.Health(object.Object)
	}
	return usualHealth(object.Object)
}

// readable reports whether the status of an object is one, or not there.
func readable(object map[string]any) bool {
	if object["status"] == nil {
		return true
	}
	_, ok := object["status"].(map[string]any)
	return ok
}

// terminating: an object with a deletionTimestamp goes away, whatever else it
// says (kstatus: Terminating).
func terminating(object map[string]any, known Operations) (health.Health, bool) {
	if fields.Get(object, "metadata", "deletionTimestamp") == nil {
		return health.Health{}, false
	}
	if known.Deletion != nil {
		return known.Deletion(object), true
	}
	if names := finalizers(object); names != "" {
		return health.Terminating.WithReason("Deleting", "The object is being deleted and waits for its finalizers: %s.", names), true
	}
	return health.Terminating.WithReason("Deleting", "The object is being deleted."), true
}

// finalizers returns the finalizers of an object, in order.
func finalizers(object map[string]any) string {
	var names []string
	for _, entry := range fields.List(object, "metadata", "finalizers") {
		if name, ok := entry.(string); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// unobserved: a status that is about an older generation says nothing about
// this one (kstatus: InProgress).
func unobserved(object map[string]any) (health.Health, bool) {
	observed, ok := fields.Int(object, "status", "observedGeneration")
	if !ok {
		return health.Health{}, false
	}
	generation, ok := fields.Int(object, "metadata", "generation")
	if !ok || observed >= generation {
		return health.Health{}, false
	}
	return health.Progressing.WithReason("NotObserved", "The controller has observed generation %d, but the object has generation %d.",
		observed, generation), true
}

// declared: Stalled and Reconciling are the two conditions by which kstatus
// asks controllers to tell that they failed or are at work.
func declared(object map[string]any) (health.Health, bool) {
	if c := fields.ConditionOf(object, "Stalled"); c.True() {
		return health.Degraded.FromCondition(c, "Stalled", "The controller is stalled"), true
	}
	if c := fields.ConditionOf(object, "Reconciling"); c.True() {
		return health.Progressing.FromCondition(c, "Reconciling", "The controller is reconciling"), true
	}
	return health.Health{}, false
}
