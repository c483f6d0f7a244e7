// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// action is what events say that the controller was about.
const action = "Schedule"

// recordDecisionEvent records one event for a change of the decision, whatever it took to write
// it.
func (c *SchedulingController) recordDecisionEvent(p *clusterv1beta1.Placement, before, after []decisionSlice, done decisionWrites) {
	reason := decisionEventReason(before, after, done)
	if reason == "" {
		return
	}
	if reason == clusterv1beta1.PlacementEventScoreUpdate {
		c.events.Eventf(p, nil, corev1.EventTypeNormal, reason, action, "the scores of %d clusters were updated", len(listedClusters(after)))
		return
	}
	had := sets.New(listedClusters(before)...)
	has := sets.New(listedClusters(after)...)
	c.events.Eventf(p, nil, corev1.EventTypeNormal, reason, action,
		"%d clusters chosen: %d added, %d removed", len(has), len(has.Difference(had)), len(had.Difference(has)))
}

// decisionEventReason returns the reason of the event for the writes, "" if there are none.
func decisionEventReason(before, after []decisionSlice, done decisionWrites) string {
	isNew := func(s decisionSlice) bool {
		return !slices.ContainsFunc(before, func(old decisionSlice) bool { return old.Number == s.Number })
	}
	changed := slices.Concat(done.First, done.Then)
	switch {
	case done.isEmpty():
		return ""
	case sameChoice(before, after):
		return clusterv1beta1.PlacementEventScoreUpdate
	case len(changed) == 0:
		return clusterv1beta1.PlacementEventDecisionDelete
	case len(done.Gone) == 0 && !slices.ContainsFunc(changed, func(s decisionSlice) bool { return !isNew(s) }):
		return clusterv1beta1.PlacementEventDecisionCreate
	default:
		return clusterv1beta1.PlacementEventDecisionUpdate
	}
}
