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

// round is one run of Schedule. Clusters are known by their place in the fleet.
type round struct {
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
	// share, and lacks tells whether the kind of the binding is not on it.
	asked view.Served
	lacks bool

	observer Observer
}

func newRound(fleet view.Fleet, previous []string, now time.Time) *round {
	r := &round{fleet: fleet, now: now, kept: make([]bool, fleet.Len())}
	for _, name := range previous {
		if i, found := fleet.Find(name); found {
			r.kept[i] = true
		}
	}
	return r
}

// again says that the result is good until then.
func (r *round) again(then time.Time) {
	if r.after.IsZero() || then.Before(r.after) {
		r.after = then
	}
}

// fail remembers the first problem with an expression.
func (r *round) fail(path *field.Path, err error) {
	if r.problem == nil {
		r.problem = field.Invalid(path, field.OmitValueType{}, err.Error())
	}
}

// exhaust remembers that the expressions cost too much. That is the problem then,
// whatever failed before.
func (r *round) exhaust(path *field.Path) {
	if !r.exhausted {
		r.exhausted, r.problem = true, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(
			"the expressions cost more than %d units for the clusters of the fleet, the limit; select by labels first", uint64(ExpressionCostMax)))
	}
}

// valid tells whether a score counts now. If it will not for ever, the round
// comes again when it expires.
func (r *round) valid(score view.Score) bool {
	if score.Until.IsZero() {
		return true
	}
	if !score.Until.After(r.now) {
		return false
	}
	r.again(score.Until)
	return true
}

// Schedule chooses clusters of the fleet. Those that it chose before, by name,
// are previous: taints of effect NoSelectIfNew do not matter to them, and of
// clusters that are equally good they are chosen first. The fleet must not have
// more than 2^31 clusters.
func Schedule(fleet view.Fleet, request Request, previous []string, now time.Time) Result {
	r := newRound(fleet, previous, now)
	r.observer = request.observer
	result := Result{round: r, request: request, verdicts: make([]verdict, fleet.Len())}
	eligible := result.filter()
	result.columns = make([][]int32, len(request.scorers))
	totals := make([]int64, fleet.Len())
	for k, weighted := range request.scorers {
		column := make([]int32, len(eligible))
		end := r.observer.begin(ScorePlugin, weighted.Scorer.Name())
		weighted.Scorer.score(r, eligible, column)
		end()
		for n, i := range eligible {
			totals[i] += int64(weighted.Weight) * int64(column[n])
		}
		result.columns[k] = column
	}
	result.totals = totals
	result.scored = eligible
	result.choose(rank(eligible, totals, r.kept))
	result.After = r.after
	result.Problem = r.problem
	result.Exhausted = r.exhausted
	return result
}

// filter writes the verdicts on the clusters that may not be chosen, and returns
// the others.
func (r *Result) filter() []int {
	eligible := make([]int, r.round.fleet.Len())
	for i := range eligible {
		eligible[i] = i
	}
	for _, f := range r.request.filters {
		end := r.round.observer.begin(FilterPlugin, f.name())
		passed := eligible[:0]
		for _, i := range eligible {
			if ok, detail := f.admits(r.round, i, r.round.fleet.At(i)); ok {
				passed = append(passed, i)
			} else {
				r.verdicts[i] = verdict{code: f.code(), detail: detail}
			}
		}
		eligible = passed
		end()
	}
	return eligible
}

// rank returns the clusters in the order of their totals, those that were
// chosen before and then those whose names come first of equal ones.
func rank(clusters []int, totals []int64, kept []bool) []int {
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

// choose marks the clusters that are chosen of those that may be, which are in
// the order of their rank.
func (r *Result) choose(ranked []int) {
	wanted := len(ranked)
	if !r.request.all {
		wanted = min(wanted, r.request.count)
	}
	for n, i := range ranked {
		r.verdicts[i].rank = n + 1
		r.verdicts[i].code = codeRank
	}
	chosen := ranked[:wanted]
	if r.request.spreads(wanted < len(ranked)) {
		chosen = newSpreading(r.round.fleet, r.request.spread, ranked).pick(wanted, r.verdicts)
	}
	for _, i := range chosen {
		r.verdicts[i].code = codeChosen
	}
	for i := range r.verdicts {
		if r.verdicts[i].code == codeChosen {
			r.Targets = append(r.Targets, r.round.fleet.At(i).Name)
		}
	}
}
