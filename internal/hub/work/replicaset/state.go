// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// templateState is how far a cluster is with the template.
type templateState struct {
	rollout.ClusterState
	// Why says what has gone wrong.
	Why string
	// ByProgressing says that the state is that of condition Progressing, and not
	// of Applied and Available.
	ByProgressing bool
}

// stateOfWork returns how far a cluster is by its work, nil for none. The template is
// a hash. What the agent says about another generation does not count, and no
// state began before the spec was written: conditions that remain True through a
// change keep the time of their transition. Nor did one begin after now: these
// times are by the member's clock, which may be wrong, and its agent may lie.
func stateOfWork(work *workv1.ManifestWork, template string, now time.Time) templateState {
	if work == nil || work.Annotations[keptHash] != template && work.DeletionTimestamp.IsZero() {
		return templateState{ClusterState: rollout.ClusterState{Status: rollout.ToApply}}
	}
	if !work.DeletionTimestamp.IsZero() {
		return templateState{ClusterState: rollout.ClusterState{Status: rollout.Progressing, Since: work.DeletionTimestamp.Time}}
	}
	applied := currentCondition(work, workv1.ManifestWorkConditionApplied)
	available := currentCondition(work, workv1.ManifestWorkConditionAvailable)
	progressing := currentCondition(work, workv1.ManifestWorkConditionProgressing)
	degraded := currentCondition(work, workv1.ManifestWorkConditionDegraded)
	result := templateState{ByProgressing: progressing != nil}
	var by []*metav1.Condition
	switch {
	case hasStatus(applied, metav1.ConditionFalse):
		result.Status, result.Why, by = rollout.Failed, explain(applied), []*metav1.Condition{applied}
	case !hasStatus(applied, metav1.ConditionTrue):
		result.Status = rollout.Progressing
	case hasStatus(degraded, metav1.ConditionTrue) && !hasStatus(progressing, metav1.ConditionFalse):
		result.Status, result.Why, by = rollout.Failed, explain(degraded), []*metav1.Condition{degraded}
	case hasStatus(progressing, metav1.ConditionFalse):
		result.Status = rollout.Succeeded
		by = []*metav1.Condition{progressing}
	case progressing != nil:
		result.Status = rollout.Progressing
		by = []*metav1.Condition{progressing}
	case hasStatus(available, metav1.ConditionTrue):
		result.Status = rollout.Succeeded
		by = []*metav1.Condition{applied, available}
	default:
		result.Status = rollout.Progressing
	}
	result.Since = latestTransition(work.ManagedFields[0].Time.Time, by, now)
	return result
}

// latestTransition returns the last of a time and the transitions of conditions until now.
func latestTransition(last time.Time, of []*metav1.Condition, now time.Time) time.Time {
	for _, c := range of {
		if c.LastTransitionTime.After(last) && !c.LastTransitionTime.After(now) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

// currentCondition returns a condition of the work as it is now, nil for none.
func currentCondition(work *workv1.ManifestWork, name string) *metav1.Condition {
	for i := range work.Status.Conditions {
		if c := &work.Status.Conditions[i]; c.Type == name && c.ObservedGeneration == work.Generation {
			return c
		}
	}
	return nil
}

func hasStatus(c *metav1.Condition, status metav1.ConditionStatus) bool {
	return c != nil && c.Status == status
}

func explain(c *metav1.Condition) string {
	if c.Message == "" {
		return fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Reason)
	}
	return fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)
}
