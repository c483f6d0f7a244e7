// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/pods"
)

// knowsReplicas reports whether somebody says how many pods objects of the kind ask for, or
// which parts they have. Then their shape says nothing.
func (o Operations) knowsReplicas() bool {
	return o.Replicas != nil || o.Revise != nil || o.Components != nil ||
		o.Custom.Replicas != nil || o.Custom.Revise != nil || o.Custom.Components != nil
}

// usualReplicas returns how many pods an object of the usual shape asks for, and what
// each needs. It has spec.replicas, a whole number, and in spec.template the template
// of a pod: without that a number of replicas may be of something else, such as of
// machines or of copies of data.
func usualReplicas(object *unstructured.Unstructured) (replicas int32, needs *Requirements, has bool) {
	if object == nil {
		return 0, nil, false
	}
	n, whole := fields.Int(object.Object, "spec", "replicas")
	pod := fields.Map(object.Object, "spec", "template", "spec")
	if !whole || n < 0 || n > math.MaxInt32 || len(fields.List(pod, "containers")) == 0 {
		return 0, nil, false
	}
	return int32(n), pods.RequirementsFromSpec(pod), true
}

// usualHealth judges an object without a rule of its own: it is healthy unless a
// condition Ready, or Available, says that it is not, or it counts fewer pods than it
// asks for.
func usualHealth(object map[string]any) health.Health {
	for _, name := range []string{"Ready", "Available"} {
		if c := fields.ConditionOf(object, name); c.Exists() {
			h := byCondition(object, c)
			if h.Status != health.Healthy {
				return h
			}
			if counted, few := missingReplicas(object); few {
				return counted
			}
			return h
		}
	}
	if h, few := missingReplicas(object); few {
		return h
	}
	return health.Healthy.WithReason("Exists", "The object exists and reports no problem.")
}

// byCondition judges an object by a condition that should be True; a controller that
// has not judged this generation yet leaves it Progressing.
func byCondition(object map[string]any, c fields.Condition) health.Health {
	generation := fields.IntOr(0, object, "metadata", "generation")
	switch {
	case c.ObservedGeneration != 0 && c.ObservedGeneration < generation:
		return health.Progressing.WithReason("NotObserved", "Condition %s is for generation %d, but the object has generation %d.",
			c.Type, c.ObservedGeneration, generation)
	case c.True():
		return health.Healthy.WithReason(c.Type, "%s", health.SentenceWithCause("Condition "+c.Type+" is True", c.Message))
	case c.False():
		return health.Progressing.FromCondition(c, "Not"+c.Type, "Condition "+c.Type+" is False")
	default:
		return health.Progressing.FromCondition(c, "Not"+c.Type, "Condition "+c.Type+" is Unknown")
	}
}

// missingReplicas reports whether an object counts fewer pods than it asks for. A counter that
// is not there is no count of zero: many kinds do not have it.
func missingReplicas(object map[string]any) (h health.Health, few bool) {
	want, asks := fields.Int(object, "spec", "replicas")
	if !asks {
		return h, false
	}
	for _, counter := range []struct{ field, what string }{{"readyReplicas", "ready"}, {"availableReplicas", "available"}} {
		if has, counts := fields.Int(object, "status", counter.field); counts && has < want {
			return health.Progressing.WithReason("ReplicasUnavailable", "%d of %d replicas are %s.", has, want, counter.what), true
		}
	}
	return h, false
}
