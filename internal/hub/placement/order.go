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

// chosen are clusters that were chosen, in groups.
type chosen struct {
	groups []scheduler.Group
	result scheduler.Result
}

// scores returns the scores of the clusters.
func (c chosen) scores() map[string]int64 {
	scores := make(map[string]int64, len(c.result.Targets))
	for _, target := range c.result.Targets {
		scores[target] = c.result.Score(target)
	}
	return scores
}

// arrange divides the groups into slices in the order that the Placement asks
// for. If only scores have changed, and were written a short time ago, the slices
// stay as they are until the time that is returned; the zero time is never.
func arrange(p *clusterv1beta1.Placement, request placement.Request, c chosen, have decisions, now time.Time) ([]slice, time.Time) {
	numbers := free(have.slices, have.others)
	if !request.ByScore {
		return divide(c.groups, have.slices, numbers), time.Time{}
	}
	wanted := rank(c.groups, c.scores(), have.slices, numbers)
	last := p.Status.LastScoreUpdateTime
	if last == nil || !sameChoice(have.slices, wanted) || plan(have.slices, wanted).none() {
		return wanted, time.Time{}
	}
	if again := last.Add(request.ScoreRateLimit); now.Before(again) {
		return have.slices, again
	}
	return wanted, time.Time{}
}

// sameChoice tells whether slices in the order of scores list the same clusters
// in the same groups, so that they differ by scores and that order only.
func sameChoice(before, after []slice) bool {
	groups := func(all []slice) map[string]int {
		of := map[string]int{}
		for _, s := range all {
			for _, c := range s.Clusters {
				of[c] = s.Group
			}
		}
		return of
	}
	ranked := func(s slice) bool { return !s.Edited && len(s.Scores) == len(s.Clusters) }
	all := slices.Concat(before, after)
	return len(listed(after)) > 0 && !slices.ContainsFunc(all, func(s slice) bool { return !ranked(s) }) &&
		len(listed(before)) == len(listed(after)) && maps.Equal(groups(before), groups(after))
}
