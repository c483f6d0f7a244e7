// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// schedulingCycle is one run of ScheduleClusters. Clusters are known by their place in the fleet.
type schedulingCycle struct {
	fleet view.Fleet
	now   time.Time
	// kept tells which clusters the request has chosen before.
	kept []bool
	// after is when time alone will change the result; zero is never.
	after time.Time
	// cost is that of all expressions so far, and problem the first of them.
	// exhausted says that some were not evaluated, as the others cost too much.
	cost      uint64
	problem   *field.Error
	exhausted bool
	// asked is the last list of kinds that was looked at, which neighbours often
	// share, and lacks reports whether the kind of the binding is not on it.
	asked view.ServedKinds
	lacks bool

	observer PluginObserver
}

func newSchedulingCycle(fleet view.Fleet, previous []string, now time.Time) *schedulingCycle {
	r := &schedulingCycle{fleet: fleet, now: now, kept: make([]bool, fleet.Len())}
	for _, name := range previous {
		if i, found := fleet.FindCluster(name); found {
			r.kept[i] = true
		}
	}
	return r
}

// validUntil says that the result is good until then.
func (r *schedulingCycle) validUntil(then time.Time) {
	if r.after.IsZero() || then.Before(r.after) {
		r.after = then
	}
}

// recordProblem remembers the first problem with an expression.
func (r *schedulingCycle) recordProblem(path *field.Path, err error) {
	if r.problem == nil {
		r.problem = field.Invalid(path, field.OmitValueType{}, err.Error())
	}
}

// markExhausted remembers that the expressions cost too much. That is the problem then,
// whatever failed before.
func (r *schedulingCycle) markExhausted(path *field.Path) {
	if !r.exhausted {
		r.exhausted, r.problem = true, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(
			"the expressions cost more than %d units for the clusters of the fleet, the limit; select by labels first", uint64(ExpressionCostMax)))
	}
}

// isScoreValid reports whether a score counts now. If it will not for ever, the round
// comes again when it expires.
func (r *schedulingCycle) isScoreValid(score view.Score) bool {
	if score.Until.IsZero() {
		return true
	}
	if !score.Until.After(r.now) {
		return false
	}
	r.validUntil(score.Until)
	return true
}

// ScheduleClusters chooses clusters of the fleet. Those that it chose before, by name,
// are previous: taints of effect NoSelectIfNew do not matter to them, and of
// clusters that are equally good they are chosen first. The fleet must not have
// more than 2^31 clusters.
func ScheduleClusters(fleet view.Fleet, request ClusterRequest, previous []string, now time.Time) ScheduleResult {
	r := newSchedulingCycle(fleet, previous, now)
	r.observer = request.observer
	result := ScheduleResult{round: r, request: request, verdicts: make([]compactVerdict, fleet.Len())}
	eligible := result.filterClusters()
	result.columns = make([][]int32, len(request.scorers))
	totals := make([]int64, fleet.Len())
	for k, weighted := range request.scorers {
		column := make([]int32, len(eligible))
		end := r.observer.beginPlugin(ScorePlugin, weighted.Scorer.Name())
		weighted.Scorer.scoreClusters(r, eligible, column)
		end()
		for n, i := range eligible {
			totals[i] += int64(weighted.Weight) * int64(column[n])
		}
		result.columns[k] = column
	}
	result.totals = totals
	result.scored = eligible
	result.chooseClusters(rankClusters(eligible, totals, r.kept))
	result.After = r.after
	result.Problem = r.problem
	result.Exhausted = r.exhausted
	return result
}

// filterClusters writes the verdicts on the clusters that may not be chosen, and returns
// the others.
func (r *ScheduleResult) filterClusters() []int {
	eligible := make([]int, r.round.fleet.Len())
	for i := range eligible {
		eligible[i] = i
	}
	for _, f := range r.request.filters {
		end := r.round.observer.beginPlugin(FilterPlugin, f.pluginName())
		passed := eligible[:0]
		for _, i := range eligible {
			if ok, detail := f.admitsCluster(r.round, i, r.round.fleet.ClusterAt(i)); ok {
				passed = append(passed, i)
			} else {
				r.verdicts[i] = compactVerdict{code: f.refusalCode(), detail: detail}
			}
		}
		eligible = passed
		end()
	}
	return eligible
}

// rankClusters returns the clusters in the order of their totals, those that were
// chosen before and then those whose names come first of equal ones.
func rankClusters(clusters []int, totals []int64, kept []bool) []int {
	type entry struct {
		total int64
		kept  bool
		i     int
	}
	entries := make([]entry, len(clusters))
	for n, i := range clusters {
		entries[n] = entry{totals[i], kept[i], i}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.total != b.total { // the usual case, in a hot loop
			return cmp.Compare(b.total, a.total)
		}
		return cmp.Or(keptFirst(a.kept, b.kept), cmp.Compare(a.i, b.i))
	})
	ranked := make([]int, len(clusters))
	for n, e := range entries {
		ranked[n] = e.i
	}
	return ranked
}

func keptFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// chooseClusters marks the clusters that are chosen of those that may be, which are in
// the order of their rank.
func (r *ScheduleResult) chooseClusters(ranked []int) {
	wanted := len(ranked)
	if !r.request.all {
		wanted = min(wanted, r.request.count)
	}
	for n, i := range ranked {
		r.verdicts[i].rank = n + 1
		r.verdicts[i].code = codeRank
	}
	chosen := ranked[:wanted]
	if r.request.spreadDecides(wanted < len(ranked)) {
		chosen = newSpreading(r.round.fleet, r.request.spread, ranked).pickClusters(wanted, r.verdicts)
	}
	for _, i := range chosen {
		r.verdicts[i].code = codeChosen
	}
	for i := range r.verdicts {
		if r.verdicts[i].code == codeChosen {
			r.Targets = append(r.Targets, r.round.fleet.ClusterAt(i).Name)
		}
	}
}
