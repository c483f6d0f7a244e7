// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// wellKnown is the condition of a well-known rule, nil if nothing is known
// about it for the object's kind: a rule for many objects makes conditions
// where they have a meaning.
//
// Complete is known of kinds that end. Progressing and Degraded are known of
// every kind, by its health: an object is Progressing until it is healthy, also
// while it is degraded, because rollouts take Progressing and Degraded together
// for a failure and not Progressing for success.
func (e *evaluation) wellKnown(r *compiledRule) *metav1.Condition {
	switch r.condition {
	case workv1.ManifestConditionComplete:
		if complete := e.kinds.Operations(e.object.GroupVersionKind()).Complete; complete != nil {
			done, message := complete(e.object.Object)
			return e.evaluatedCondition(r, boolStatus(done), message)
		}
	case workv1.ManifestConditionProgressing:
		h := e.kinds.AssessHealth(e.object)
		return e.evaluatedCondition(r, statusFromHealth(h, h.Status != health.Healthy), h.Message)
	case workv1.ManifestConditionDegraded:
		h := e.kinds.AssessHealth(e.object)
		return e.evaluatedCondition(r, statusFromHealth(h, h.Status == health.Degraded), h.Message)
	}
	return nil
}

func statusFromHealth(h health.Health, yes bool) metav1.ConditionStatus {
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
