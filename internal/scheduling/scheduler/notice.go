// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Notice says that a part of a request has no effect as things are, and what to
// do. It is no mistake of the user: what is missing may come.
type Notice struct {
	// Path is where the part stands in the user's object.
	Path *field.Path
	Text string
}

// IneffectiveNotices returns which scores and topology keys had no effect, as eligible
// clusters do not have them. Scores of clusters that are chosen anyway do not
// matter.
func (r ScheduleResult) IneffectiveNotices() []Notice {
	var notices []Notice
	if len(r.scored) == 0 {
		return nil
	}
	if !r.request.all || len(r.request.spread) > 0 {
		for _, weighted := range r.request.scorers {
			scorer, ours := weighted.Scorer.(AddOn)
			if !ours {
				continue
			}
			if unscored := r.unscored(scorer); unscored > 0 {
				notices = append(notices, Notice{weighted.Path, fmt.Sprintf(
					"%d of %d clusters have no valid score %q and count as 0; check that the add-on keeps AddOnPlacementScore %q up to date in their namespaces",
					unscored, len(r.scored), scorer.Score.Score, scorer.Score.Resource)})
			}
		}
	}
	for _, constraint := range r.request.spread {
		if !r.anyHas(constraint) {
			notices = append(notices, Notice{constraint.Path.Child("topologyKey"), fmt.Sprintf(
				"none of %d clusters has %s; add it to the clusters or use another key", len(r.scored), constraint.topology())})
		}
	}
	return notices
}

// unscored returns how many eligible clusters an add-on gives no score.
func (r ScheduleResult) unscored(scorer AddOn) int {
	n := 0
	for _, i := range r.scored {
		if score, found := r.round.fleet.ClusterAt(i).Scores[scorer.Score]; !found || !r.round.isScoreValid(score) {
			n++
		}
	}
	return n
}

// anyHas reports whether an eligible cluster has a place in the topology.
func (r ScheduleResult) anyHas(constraint SpreadConstraint) bool {
	for _, i := range r.scored {
		if _, has := constraint.topologyDomain(r.round.fleet.ClusterAt(i)); has {
			return true
		}
	}
	return false
}
