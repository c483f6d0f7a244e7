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
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// workState returns how a cluster is with what its work has.
func workState(work *workv1.ManifestWork, now time.Time) staged.ObjectState {
	state := staged.ObjectState{Updated: true, ClusterState: rollout.ClusterState{Status: rollout.Progressing, Since: sentSince(work, now)}}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	switch {
	case applied == nil:
		return state
	case isOutdated(applied, work):
		good, _ := isObjectHealthy(work)
		state.Unanswered = good && applied.Status == metav1.ConditionTrue
		return state
	}
	if applied.Status != metav1.ConditionTrue {
		state.Status = rollout.Failed
		state.Why = applied.Message
		return state
	}
	switch good, late := isObjectHealthy(work); {
	case good && late:
		state.Unanswered = true
	case good:
		state.Status = rollout.Succeeded
	}
	return state
}

// sentSince returns when a cluster was sent what its work has.
func sentSince(work *workv1.ManifestWork, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, work.Annotations[fleetv1alpha1.AnnotationRevisionSince])
	if err != nil || at.After(now) {
		return now
	}
	return at
}

// isOutdated reports whether a condition is about an earlier generation of its work.
func isOutdated(c *metav1.Condition, work *workv1.ManifestWork) bool {
	return c.ObservedGeneration != 0 && c.ObservedGeneration < work.Generation
}

// isObjectHealthy reports whether the object of a work is, and whether that is said of what
// the object was before. Agents that do not say are believed that what they have
// applied works.
func isObjectHealthy(work *workv1.ManifestWork) (good, late bool) {
	if len(work.Status.ResourceStatus.Manifests) == 0 {
		return true, false
	}
	first := &work.Status.ResourceStatus.Manifests[0]
	read := meta.FindStatusCondition(first.Conditions, workv1.ManifestConditionStatusFeedbackSynced)
	late = read != nil && isOutdated(read, work)
	for _, value := range first.StatusFeedback.Values {
		if value.Name == karmadaworkv1alpha1.FeedbackHealth && value.FieldValue.String != nil {
			return workv1alpha2.ResourceHealth(*value.FieldValue.String) == workv1alpha2.ResourceHealthy, late
		}
	}
	return true, late
}
