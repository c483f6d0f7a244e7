// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/health"
)

// rolloutSlow is after how long a rollout in which nothing fails is worth a look.
const rolloutSlow = time.Hour

func hubReplicaSets(e *evidence.Evidence) []Finding {
	if e.ReplicaSets.Err != nil {
		return []Finding{unseenFinding("the ManifestWorkReplicaSets", e.ReplicaSets.Err)}
	}
	var found []Finding
	for i := range e.ReplicaSets.Value.Items {
		if f, wrong := replicaSetFinding(e, &e.ReplicaSets.Value.Items[i]); wrong {
			found = append(found, f)
		}
	}
	return limitFindings(found, "ManifestWorkReplicaSets", "\"capstan tree\" shows them.")
}

// replicaSetFinding looks at one ManifestWorkReplicaSet.
func replicaSetFinding(e *evidence.Evidence, set *workv1alpha1.ManifestWorkReplicaSet) (f Finding, wrong bool) {
	state := health.ReplicaSetReadiness(set)
	if state.Ready == metav1.ConditionTrue || !set.DeletionTimestamp.IsZero() {
		return Finding{}, false
	}
	f = brokenFinding(state.Reason, fmt.Sprintf("ManifestWorkReplicaSet %s/%s", set.Namespace, set.Name), state.Message,
		fmt.Sprintf("Do what the message says; \"kubectl -n %s describe manifestworkreplicaset %s\" has the rest.", set.Namespace, set.Name))
	_, paused := set.Annotations[fleetv1alpha1.AnnotationPaused]
	switch {
	case state.Ready == metav1.ConditionUnknown:
		f.Reason = "ReplicaSetNotSeen"
		f.Next = "Check that the hub's work controller is running: see the steps of the hub. It needs the feature gate ManifestWorkReplicaSet of the ClusterManager."
		return f, e.Hub.Now.Sub(lastSpecChange(set.ObjectMeta)) >= soon
	case paused:
		f.State = Odd
		f.Reason = "ReplicaSetPaused"
		f.Next = "Remove the annotation when you are done."
		return f, true
	case state.Reason == workv1alpha1.ReasonPlacementDecisionEmpty:
		f.State = Odd
		f.Next = "See what the previous step says about its placements."
		return f, true
	case state.Reason == workv1alpha1.ReasonProgressing, state.Reason == workv1alpha1.ReasonProcessing:
		return rolloutFinding(e, set, f)
	}
	return f, conditionFalseFor(e, set, workv1alpha1.ConditionPlacementVerified) >= soon || conditionFalseFor(e, set, workv1alpha1.ConditionManifestworkApplied) >= soon
}

// conditionFalseFor returns how long a condition has been False, 0 if it is not.
func conditionFalseFor(e *evidence.Evidence, set *workv1alpha1.ManifestWorkReplicaSet, kind string) time.Duration {
	if c := meta.FindStatusCondition(set.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
		return e.Hub.Now.Sub(c.LastTransitionTime.Time)
	}
	return 0
}

// rolloutFinding is for a rollout that is not complete: it does not progress if works
// fail, and is odd if it only takes long.
func rolloutFinding(e *evidence.Evidence, set *workv1alpha1.ManifestWorkReplicaSet, f Finding) (Finding, bool) {
	applied := meta.FindStatusCondition(set.Status.Conditions, workv1alpha1.ConditionManifestworkApplied)
	fails := applied != nil && applied.Status == metav1.ConditionFalse && applied.Reason == workv1alpha1.ReasonNotAsExpected
	switch age := conditionFalseFor(e, set, workv1alpha1.ConditionPlacementRolledOut); {
	case fails && age >= soon:
		f.Reason = "RolloutNotProgressing"
		return f, true
	case age >= rolloutSlow:
		f.State = Odd
		f.Reason = "RolloutSlow"
		return f, true
	default:
		return Finding{}, false
	}
}
