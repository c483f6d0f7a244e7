// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"slices"
	"time"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// chosenGroups are clusters that were chosen, in groups.
type chosenGroups struct {
	groups []scheduler.DecisionGroup
	result scheduler.ScheduleResult
}

// scoresByCluster returns the scores of the clusters.
func (c chosenGroups) scoresByCluster() map[string]int64 {
	scores := make(map[string]int64, len(c.result.Targets))
	for _, target := range c.result.Targets {
		scores[target] = c.result.TotalScore(target)
	}
	return scores
}

// arrangeSlices divides the groups into slices in the order that the Placement asks
// for. If only scores have changed, and were written a short time ago, the slices
// stay as they are until the time that is returned; the zero time is never.
func arrangeSlices(p *clusterv1beta1.Placement, request placement.CompiledRequest, c chosenGroups, have storedDecisions, now time.Time) ([]decisionSlice, time.Time) {
	numbers := freeNumbers(have.slices, have.others)
	if !request.ByScore {
		return divide(c.groups, have.slices, numbers), time.Time{}
	}
	wanted := rankByScore(c.groups, c.scoresByCluster(), have.slices, numbers)
	last := p.Status.LastScoreUpdateTime
	if last == nil || !sameChoice(have.slices, wanted) || planDecisionWrites(have.slices, wanted).isEmpty() {
		return wanted, time.Time{}
	}
	if again := last.Add(request.ScoreRateLimit); now.Before(again) {
		return have.slices, again
	}
	return wanted, time.Time{}
}

// sameChoice reports whether slices in the order of scores list the same clusters
// in the same groups, so that they differ by scores and that order only.
func sameChoice(before, after []decisionSlice) bool {
	groups := func(all []decisionSlice) map[string]int {
		of := map[string]int{}
		for _, s := range all {
			for _, c := range s.Clusters {
				of[c] = s.Group
			}
		}
		return of
	}
	ranked := func(s decisionSlice) bool { return !s.Edited && len(s.Scores) == len(s.Clusters) }
	all := slices.Concat(before, after)
	return len(listedClusters(after)) > 0 && !slices.ContainsFunc(all, func(s decisionSlice) bool { return !ranked(s) }) &&
		len(listedClusters(before)) == len(listedClusters(after)) && maps.Equal(groups(before), groups(after))
}
