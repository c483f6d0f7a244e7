// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// The verdicts on an object.
const (
	Healthy   = "Healthy"
	Unhealthy = "Unhealthy"
	Unknown   = "Unknown"
)

const (
	// GenerationAnnotation has the generation of the template that an object on a
	// cluster was made from.
	GenerationAnnotation = "resourcetemplate.karmada.io/generation"

	// These two are in the status that Reflect returns, beside observedGeneration:
	// the object's own generation, and its template's.
	generationField         = "generation"
	templateGenerationField = "resourceTemplateGeneration"
)

// Reflect returns what of an object's status is reported of it; nil if it has
// none. The values in it are the object's own.
//
// A status with an observedGeneration alone does not tell whether it is about
// the object as it is now. So the object's generation goes with it, and that of
// the template that it was made from.
func (c Chain) Reflect(object *unstructured.Unstructured) map[string]any {
	if object == nil || object.Object == nil {
		return nil
	}
	state := fields.Map(object.Object, "status")
	if known := c.of(object); known.Reflect != nil {
		state = known.Reflect(object.Object)
	}
	if len(state) == 0 {
		return nil
	}
	if _, ok := fields.Int(state, "observedGeneration"); !ok {
		return state
	}
	reported := maps.Clone(state)
	if generation, ok := fields.Int(object.Object, "metadata", "generation"); ok && reported[generationField] == nil {
		reported[generationField] = generation
	}
	annotation := fields.String(object.Object, "metadata", "annotations", GenerationAnnotation)
	if generation, err := strconv.ParseInt(annotation, 10, 64); err == nil && reported[templateGenerationField] == nil {
		reported[templateGenerationField] = generation
	}
	return reported
}

// Verdict tells in a word whether an object does what it is for. That is not
// its Health: a Job that runs is Healthy. A kind without a rule is Healthy unless
// its Health says that the object failed.
func (c Chain) Verdict(object *unstructured.Unstructured) string {
	if object == nil || object.Object == nil {
		return Unknown
	}
	if known := c.of(object); known.Verdict != nil && readable(object.Object) {
		return known.Verdict(object.Object)
	}
	switch c.Health(object).Status {
	case health.Degraded:
		return Unhealthy
	case health.Unknown:
		return Unknown
	default:
		return Healthy
	}
}

// VerdictIf returns the verdict on an object that does what it is for, or does
// not.
func VerdictIf(well bool) string {
	if well {
		return Healthy
	}
	return Unhealthy
}
