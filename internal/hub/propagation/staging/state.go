// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/staged"
	"github.com/capstan-io/capstan/internal/rollout"
)

// stateOf returns how a cluster is with what its work has.
func stateOf(work *workv1.ManifestWork, now time.Time) staged.State {
	state := staged.State{Updated: true, State: rollout.State{Status: rollout.Progressing, Since: since(work, now)}}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	if applied == nil || older(applied, work) {
		return state
	}
	if applied.Status != metav1.ConditionTrue {
		state.Status, state.Why = rollout.Failed, applied.Message
		return state
	}
	if healthy(work) {
		state.Status = rollout.Succeeded
	}
	return state
}

// since returns when a cluster was sent what its work has.
func since(work *workv1.ManifestWork, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, work.Annotations[fleetv1alpha1.AnnotationRevisionSince])
	if err != nil || at.After(now) {
		return now
	}
	return at
}

// older tells whether a condition is about an earlier generation of its work.
func older(c *metav1.Condition, work *workv1.ManifestWork) bool {
	return c.ObservedGeneration != 0 && c.ObservedGeneration < work.Generation
}

// healthy tells whether the object of a work is. Agents that do not say are
// believed that what they have applied works.
func healthy(work *workv1.ManifestWork) bool {
	if len(work.Status.ResourceStatus.Manifests) == 0 {
		return true
	}
	first := &work.Status.ResourceStatus.Manifests[0]
	if read := meta.FindStatusCondition(first.Conditions, workv1.ManifestConditionStatusFeedbackSynced); read != nil && older(read, work) {
		return false // it is said of what the object was before
	}
	for _, value := range first.StatusFeedback.Values {
		if value.Name == karmadaworkv1alpha1.FeedbackHealth && value.FieldValue.String != nil {
			return workv1alpha2.ResourceHealth(*value.FieldValue.String) == workv1alpha2.ResourceHealthy
		}
	}
	return true
}
