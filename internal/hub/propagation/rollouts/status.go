// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/propagation/staged"
)

const (
	// clustersTold is how many clusters a message names.
	clustersTold = 5
	// whyBytesMax is how long a message says why a cluster has failed at most.
	whyBytesMax = 512
)

// reportProgress writes into the status how far a rollout is.
func reportProgress(r staging.Rollout, p staging.RolloutProgress, absent string) {
	status := r.RolloutStatus()
	status.ObservedGeneration = r.GetGeneration()
	status.Revision = max(status.Revision, p.Revision)
	status.Objects = clampInt32(p.Objects)
	accepted := acceptedCondition(r, p, absent)
	conditions.SetCondition(&status.Conditions, r.GetGeneration(), accepted)
	if p.Starting {
		return // what was known is still the best guess
	}
	status.Stage, status.Group, status.Clusters = "", p.Group, clusterCounts(p)
	if p.Stages > 0 {
		status.Stage = fmt.Sprintf("%d/%d", p.Stage, p.Stages)
	}
	complete, progressing := progressConditions(r, p, accepted)
	conditions.SetCondition(&status.Conditions, r.GetGeneration(), complete)
	conditions.SetCondition(&status.Conditions, r.GetGeneration(), progressing)
}

func clampInt32(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // it is within the limit

func clusterCounts(p staging.RolloutProgress) fleetv1alpha1.RolloutClusters {
	return fleetv1alpha1.RolloutClusters{
		Total: clampInt32(p.Total), Pending: clampInt32(p.Pending), Updated: clampInt32(p.UpdatedCount()),
		Healthy: clampInt32(p.Healthy), Progressing: clampInt32(p.ProgressingCount()), Failed: clampInt32(len(p.Failed)),
	}
}

// acceptedCondition says whether a rollout is in effect.
func acceptedCondition(r staging.Rollout, p staging.RolloutProgress, absent string) metav1.Condition {
	c := metav1.Condition{Type: fleetv1alpha1.PropagationRolloutConditionAccepted, Status: metav1.ConditionFalse}
	_, problems := staged.CompilePlan(r.RolloutSpec())
	switch {
	case len(problems) > 0:
		c.Reason = fleetv1alpha1.PropagationRolloutReasonInvalid
		c.Message = fmt.Sprintf("No cluster gets a change until this is fixed: %v", problems.ToAggregate())
	case p.Rival != nil:
		c.Reason = fleetv1alpha1.PropagationRolloutReasonConflict
		c.Message = fmt.Sprintf("Rollout %q has the same target and is older: delete one of them.", p.Rival.Name)
	case absent != "":
		c.Reason = fleetv1alpha1.PropagationRolloutReasonTargetNotFound
		c.Message = absent
	case p.Unstored > 0:
		c.Status = metav1.ConditionTrue
		c.Reason = fleetv1alpha1.PropagationRolloutReasonRevisionsFull
		c.Message = fmt.Sprintf("Changes reach the clusters group by group, but those of %d of %d objects are not stored, as the PropagationRevisions of their namespace "+
			"have no room for more: spec.undo cannot bring them back once they change again. Let rollouts of the namespace complete, delete those that are not needed, "+
			"or roll out less or smaller objects there.", p.Unstored, p.Objects)
	default:
		c.Status = metav1.ConditionTrue
		c.Reason = fleetv1alpha1.PropagationRolloutReasonAccepted
		c.Message = "Changes reach the clusters group by group."
	}
	return c
}

// progressConditions says whether all clusters have the latest change, and whether the rollout
// goes on.
func progressConditions(r staging.Rollout, p staging.RolloutProgress, accepted metav1.Condition) (complete, progressing metav1.Condition) {
	complete = metav1.Condition{Type: fleetv1alpha1.PropagationRolloutConditionComplete, Status: metav1.ConditionFalse}
	progressing = metav1.Condition{Type: fleetv1alpha1.PropagationRolloutConditionProgressing, Status: metav1.ConditionFalse}
	var reason string
	switch {
	case accepted.Status != metav1.ConditionTrue:
		reason = fleetv1alpha1.PropagationRolloutReasonNotAccepted
		complete.Message = accepted.Message
	case p.Undone > 0 && p.Done:
		reason = fleetv1alpha1.PropagationRolloutReasonUndone
		complete.Message = fmt.Sprintf("All clusters have what they had before revision %d. A change of what is sent begins a new revision.", p.Revision)
	case p.Held > 0 && !p.Done:
		reason = fleetv1alpha1.PropagationRolloutReasonPaused
		complete.Message = fmt.Sprintf("spec.undo has no effect on %d of %d objects: their clusters had nothing before, or it is not stored. %d of %d clusters do not have the latest "+
			"change, and do not get it: change what is sent, or remove spec.undo.", p.Held, p.Objects, p.Pending, p.Total)
	case p.Stopped != "":
		reason, complete.Message = fleetv1alpha1.PropagationRolloutReasonTooManyFailures, fmt.Sprintf("%s. %s", capitalizeFirst(p.Stopped), describeFailures(p))
	case p.Done:
		complete.Status = metav1.ConditionTrue
		reason = fleetv1alpha1.PropagationRolloutReasonComplete
		complete.Message = fmt.Sprintf("%d of %d clusters have the latest change and are healthy.", p.Healthy, p.Total)
	case p.Undone > 0:
		reason = fleetv1alpha1.PropagationRolloutReasonUndoing
		progressing.Status = metav1.ConditionTrue
		complete.Message = "Clusters get back what they had before."
	case r.RolloutSpec().Paused && p.Pending > 0:
		reason = fleetv1alpha1.PropagationRolloutReasonPaused
		complete.Message = fmt.Sprintf("%d of %d clusters do not have the latest change: spec.paused is set.", p.Pending, p.Total)
	default:
		reason = fleetv1alpha1.PropagationRolloutReasonRollingOut
		progressing.Status = metav1.ConditionTrue
		complete.Message = fmt.Sprintf("The rollout is at %s: %d of %d clusters have the latest change, and %d of these are healthy.",
			describeGroup(p), p.UpdatedCount(), p.Total, p.Healthy)
		if !p.After.IsZero() {
			complete.Message += fmt.Sprintf(" If nothing changes, it is decided again at %s.", p.After.UTC().Format(time.RFC3339))
		}
	}
	complete.Reason, progressing.Reason, progressing.Message = reason, reason, complete.Message
	return complete, progressing
}

func capitalizeFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func describeGroup(p staging.RolloutProgress) string {
	if p.Group == "" {
		return "the clusters in no group"
	}
	return fmt.Sprintf("group %q", p.Group)
}

// describeFailures says why clusters have failed.
func describeFailures(p staging.RolloutProgress) string {
	names := slices.Sorted(maps.Keys(p.Failed))
	var told []string
	for _, name := range names[:min(len(names), clustersTold)] {
		why := p.Failed[name]
		if len(why) > whyBytesMax {
			why = strings.ToValidUTF8(why[:whyBytesMax], "") + "…"
		}
		told = append(told, fmt.Sprintf("%s: %s", name, why))
	}
	text := strings.Join(told, "; ")
	if more := len(names) - len(told); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text + "."
}

// sameStatus reports whether nothing has to be written.
func sameStatus(before, after staging.Rollout) bool {
	return equality.Semantic.DeepEqual(before.RolloutStatus(), after.RolloutStatus())
}
