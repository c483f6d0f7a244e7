// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// wellKnown is the condition of a well-known rule, nil if nothing is known
// about it for the object's kind: a rule for many objects makes conditions
// where they have a meaning.
//
// Complete is known of Jobs and Pods. Progressing and Degraded are known of
// every kind, by its health: an object is Progressing until it is healthy, also
// while it is degraded, because rollouts take Progressing and Degraded together
// for a failure and not Progressing for success.
func (e *evaluation) wellKnown(r *rule) *metav1.Condition {
	switch r.condition {
	case workv1.ManifestConditionComplete:
		if status, message := complete(e.object.Object, e.object.GroupVersionKind().GroupKind()); status != "" {
			return e.evaluated(r, status, message)
		}
	case workv1.ManifestConditionProgressing:
		h := health.Of(e.object)
		return e.evaluated(r, judged(h, h.Status != health.Healthy), h.Message)
	case workv1.ManifestConditionDegraded:
		h := health.Of(e.object)
		return e.evaluated(r, judged(h, h.Status == health.Degraded), h.Message)
	}
	return nil
}

func judged(h health.Health, yes bool) metav1.ConditionStatus {
	if h.Status == health.Unknown {
		return metav1.ConditionUnknown
	}
	return boolStatus(yes)
}

func boolStatus(yes bool) metav1.ConditionStatus {
	if yes {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// complete tells whether an object has ended, with success or without; status
// is "" for kinds that do not end.
func complete(object map[string]any, kind schema.GroupKind) (status metav1.ConditionStatus, message string) {
	switch kind {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		switch {
		case fields.ConditionOf(object, "Complete").True():
			return metav1.ConditionTrue, "The job is finished: it is complete."
		case fields.ConditionOf(object, "Failed").True():
			return metav1.ConditionTrue, "The job is finished: it failed."
		}
		return metav1.ConditionFalse, "The job is not finished."
	case schema.GroupKind{Kind: "Pod"}:
		phase := fields.String(object, "status", "phase")
		if phase == "" {
			return metav1.ConditionFalse, "The pod has no phase yet."
		}
		return boolStatus(phase == "Succeeded" || phase == "Failed"), "The pod is in phase " + phase + "."
	}
	return "", ""
}
