// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// The verdicts on an object.
const (
	Healthy   = "Healthy"
	Unhealthy = "Unhealthy"
	Unknown   = "Unknown"
)

// ClusterItem is what one cluster reports of its object.
type ClusterItem = aggregate.ClusterItem

// ReflectStatus returns what of an object's status is reported of it; nil if it has
// none. The values in it are the object's own.
//
// A status with an observedGeneration alone does not tell whether it is about
// the object as it is now. So the object's generation goes with it, and that of
// the template that it was made from. What a customization says is reported as it
// says it. An error is that of a customization; nothing is reported then.
func (c Chain) ReflectStatus(object *unstructured.Unstructured) (map[string]any, error) {
	if object == nil || object.Object == nil {
		return nil, nil
	}
	known := c.operationsOf(object)
	if known.Custom.Reflect != nil {
		status, err := known.Custom.Reflect(object.Object)
		if err != nil {
			return nil, err
		}
		return status, nil
	}
	state := fields.Map(object.Object, "status")
	if known.Reflect != nil {
		state = known.Reflect(object.Object)
	}
	if len(state) == 0 {
		return nil, nil
	}
	if generations := StatusGenerations(object.Object, state); len(generations) > 0 {
		state = maps.Clone(state)
		maps.Copy(state, generations)
	}
	return state, nil
}

// StatusGenerations are what goes with a status that has an observedGeneration: the
// generations of its object and of the template, unless it has them itself.
func StatusGenerations(object, state map[string]any) map[string]any {
	if !hasObservedGeneration(state) {
		return nil
	}
	missing := map[string]any{}
	if generation, ok := fields.Int(object, "metadata", "generation"); ok && state[aggregate.Generation] == nil {
		missing[aggregate.Generation] = generation
	}
	annotation := fields.String(object, "metadata", "annotations", workv1alpha2.AnnotationTemplateGeneration)
	if generation, err := strconv.ParseInt(annotation, 10, 64); err == nil && state[aggregate.TemplateGeneration] == nil {
		missing[aggregate.TemplateGeneration] = generation
	}
	return missing
}

// hasObservedGeneration reports whether a status has an observedGeneration, or one of its
// conditions.
func hasObservedGeneration(state map[string]any) bool {
	_, ok := fields.Int(state, "observedGeneration")
	return ok || slices.ContainsFunc(fields.List(state, "conditions"), func(entry any) bool {
		c, _ := entry.(map[string]any)
		_, ok := fields.Int(c, "observedGeneration")
		return ok
	})
}

// InterpretHealth tells in a word whether an object does what it is for. That is not
// its Health: a Job that runs is Healthy. Without a rule for that an object is
// Healthy unless its Health says that it failed, and of a kind of which nothing is
// known, that it is not ready. An error is that of a customization; the verdict is
// Unknown then.
func (c Chain) InterpretHealth(object *unstructured.Unstructured) (string, error) {
	if object == nil || object.Object == nil {
		return Unknown, nil
	}
	known := c.operationsOf(object)
	if known.Custom.Verdict != nil {
		verdict, err := known.Custom.Verdict(object.Object)
		if err != nil {
			return Unknown, err
		}
		return verdict, nil
	}
	if known.Verdict != nil && readable(object.Object) {
		return known.Verdict(object.Object), nil
	}
	switch c.AssessHealth(object).Status {
	case health.Degraded:
		return Unhealthy, nil
	case health.Progressing:
		return HealthVerdictIf(known.Health != nil), nil
	case health.Unknown:
		return Unknown, nil
	default:
		return Healthy, nil
	}
}

// HealthVerdictIf returns the verdict on an object that does what it is for, or does
// not.
func HealthVerdictIf(well bool) string {
	if well {
		return Healthy
	}
	return Unhealthy
}

// AggregateStatus returns the whole status that a template has by what its clusters
// report, and whether that is another than it has now. There is none to write if
// the kind, or what is reported, does not give one.
//
// All clusters that should have the object are items, also those that report
// nothing yet. Their order does not matter. An error is that of a customization.
func (c Chain) AggregateStatus(template *unstructured.Unstructured, items []ClusterItem) (status map[string]any, changed bool, err error) {
	if template == nil || template.Object == nil {
		return nil, false, nil
	}
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b ClusterItem) int { return cmp.Compare(a.Cluster, b.Cluster) })
	known := c.operationsOf(template)
	switch {
	case known.Custom.Aggregate != nil:
		if status, err = known.Custom.Aggregate(template.Object, items); err != nil {
			return nil, false, err
		}
	case known.Aggregate != nil:
		status = known.Aggregate(template.Object, items)
	default:
		status = aggregate.MergeUsualStatus(template.Object, items, aggregate.AggregationRules{})
	}
	if status == nil || aggregate.SameValue(status, fields.Map(template.Object, "status")) {
		return nil, false, nil
	}
	return runtime.DeepCopyJSON(status), true, nil
}
