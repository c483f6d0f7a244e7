// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// A score is from scoreMin to scoreMax.
const scoreMin, scoreMax int32 = -100, 100

// Scorer says how good clusters are. See Steady, Balance, MostAllocatable and AddOn.
type Scorer interface {
	// Name is shown to users.
	Name() string
	// scoreClusters sets the scores of the eligible clusters, which are 0 before. Both lists
	// are of the same length.
	scoreClusters(now *schedulingCycle, eligible []int, scores []int32)
	// scoreMayChange reports whether it may score a cluster differently after a change of it.
	scoreMayChange(before, after *view.Cluster) bool
}

// Steady prefers the clusters that are chosen already.
type Steady struct{}

// Name is part of Scorer.
func (Steady) Name() string { return "Steady" }

func (Steady) scoreClusters(now *schedulingCycle, eligible []int, scores []int32) {
	for n, i := range eligible {
		if now.kept[i] {
			scores[n] = scoreMax
		}
	}
}

func (Steady) scoreMayChange(_, _ *view.Cluster) bool { return false }

// Locality is Steady by the name that users of propagation policies know.
type Locality struct{ Steady }

// Name is part of Scorer.
func (Locality) Name() string { return "ClusterLocality" }

// Balance prefers the clusters that fewer other placements have chosen, compared
// with the cluster of the fleet that most of them have, whether eligible or not.
type Balance struct{}

// Name is part of Scorer.
func (Balance) Name() string { return "Balance" }

func (Balance) scoreClusters(now *schedulingCycle, eligible []int, scores []int32) {
	others := func(i int) int {
		if now.kept[i] { // by this request
			return max(0, now.fleet.ClusterAt(i).Decisions-1)
		}
		return now.fleet.ClusterAt(i).Decisions
	}
	most := 0
	for i := range now.fleet.Len() {
		most = max(most, others(i))
	}
	for n, i := range eligible {
		scores[n] = scoreMax
		if most > 0 { // doubled after rounding, as in OCM
			scores[n] = 2 * int32(float64(scoreMax)*(0.5-float64(others(i))/float64(most)))
		}
	}
}

func (Balance) scoreMayChange(_, _ *view.Cluster) bool { return false }

// MostAllocatable prefers the clusters that have most of a resource for pods.
// Those that do not report it have score 0.
type MostAllocatable struct {
	// As is the scorer's name.
	As       string
	Resource corev1.ResourceName
}

// Name is part of Scorer.
func (m MostAllocatable) Name() string { return m.As }

func (m MostAllocatable) scoreClusters(now *schedulingCycle, eligible []int, scores []int32) {
	amount := func(i int) (float64, bool) {
		quantity, known := now.fleet.ClusterAt(i).Allocatable[m.Resource]
		return quantity.AsApproximateFloat64(), known
	}
	least := 0.0
	most := 0.0
	told := false
	for _, i := range eligible {
		if a, known := amount(i); known {
			if !told {
				least = a
				most = a
				told = true
			}
			least, most = min(least, a), max(most, a)
		}
	}
	for n, i := range eligible {
		switch a, known := amount(i); {
		case !known:
		case most == least:
			scores[n] = scoreMax
		default:
			scores[n] = int32(((a-least)/(most-least) - 0.5) * 2 * float64(scoreMax))
		}
	}
}

func (m MostAllocatable) scoreMayChange(before, after *view.Cluster) bool {
	old, had := before.Allocatable[m.Resource]
	amount, has := after.Allocatable[m.Resource]
	return had != has || old.Cmp(amount) != 0
}

// AddOn prefers the clusters that an add-on gives a high score. A score that
// never came, or has expired, is 0.
type AddOn struct{ Score view.ScoreName }

// Name is part of Scorer.
func (a AddOn) Name() string { return "AddOn/" + a.Score.Resource + "/" + a.Score.Score }

func (a AddOn) scoreClusters(now *schedulingCycle, eligible []int, scores []int32) {
	for n, i := range eligible {
		score, found := now.fleet.ClusterAt(i).Scores[a.Score]
		if found && now.isScoreValid(score) {
			scores[n] = min(max(score.Value, scoreMin), scoreMax)
		}
	}
}

func (a AddOn) scoreMayChange(before, after *view.Cluster) bool {
	old, had := before.Scores[a.Score]
	score, has := after.Scores[a.Score]
	return had != has || old.Value != score.Value || !old.Until.Equal(score.Until)
}
