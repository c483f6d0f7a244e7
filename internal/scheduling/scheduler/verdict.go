// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// code is what became of a cluster.
type code uint8

const (
	codeEligible code = iota // while nothing is decided
	codeChosen
	codeDeleting
	codeSet
	codePredicate
	codeTaint
	codeServed
	codeAffinity
	codeTopology
	codeEviction
	codeTogether
	codeApart
	codeSpread
	codeRank
)

// String returns the name by which people and programs know what refused a
// cluster: that of a filter, or the field that was enough for others.
func (c code) String() string {
	switch c {
	case codeDeleting:
		return "deletion"
	case codeSet:
		return "clusterSets"
	case codePredicate:
		return "predicates"
	case codeTaint:
		return "taints"
	case codeServed:
		return "apiEnablements"
	case codeAffinity:
		return "clusterAffinity"
	case codeEviction:
		return "gracefulEvictionTasks"
	case codeTogether, codeApart:
		return "workloadAffinity"
	case codeTopology, codeSpread:
		return "spreadConstraints"
	case codeRank:
		return "numberOfClusters"
	default:
		return ""
	}
}

// verdict is what became of a cluster, in few bytes.
type verdict struct {
	code code
	// detail is what the filter or the spread constraint said no about.
	detail int
	// rank is from 1, among those that the filters let through.
	rank int
}

// Result is what Schedule found.
type Result struct {
	// Targets are the clusters that are chosen, in the order of their names.
	Targets []string
	// After is when to schedule again although nothing changes: a toleration or a
	// score ends then. The zero time is never.
	After time.Time
	// Problem is the first thing that went wrong with an expression, for the user
	// to mend; nil if nothing did. The clusters that it went wrong for are not chosen.
	Problem *field.Error
	// Exhausted says that the expressions cost too much for all clusters: those whose
	// names come last were not looked at, and whether they may be chosen is not known.
	Exhausted bool

	round    *round
	request  Request
	verdicts []verdict
	totals   []int64
	scored   []int     // the clusters that have scores, in the order of names
	columns  [][]int32 // the scores by scorer, of these
}

// Wanted returns how many clusters were wanted: with a request for all, those
// that the filters let through.
func (r Result) Wanted() int {
	if r.request.all {
		return r.Eligible()
	}
	return r.request.count
}

// Missing returns how many clusters were wanted and not found.
func (r Result) Missing() int { return max(0, r.request.count-len(r.Targets)) }

// Score returns the weighted sum of the scores of a cluster that the filters let
// through.
func (r Result) Score(cluster string) int64 {
	if i, found := r.round.fleet.Find(cluster); found {
		return r.totals[i]
	}
	return 0
}

// Eligible returns how many clusters the filters let through.
func (r Result) Eligible() int { return len(r.scored) }

// Scored returns the places in the fleet of the clusters that the filters let
// through, in the order of names, and their scores.
func (r Result) Scored() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for _, i := range r.scored {
			if !yield(i, r.totals[i]) {
				return
			}
		}
	}
}

// Members returns how many clusters are in the sets to choose from, and stay.
func (r Result) Members() int {
	members := 0
	for _, v := range r.verdicts {
		if v.code != codeSet && v.code != codeDeleting {
			members++
		}
	}
	return members
}

// Verdict is what became of a cluster, and why.
type Verdict struct {
	Cluster string
	Chosen  bool
	// Reason is for people. Without what only this cluster has, such as its rank, it
	// is the same for all clusters that it is true of.
	Reason string
	// RefusedBy is what refused it: deletion, taints, spreadConstraints, and for
	// placements clusterSets, predicates or numberOfClusters, for bindings
	// apiEnablements, clusterAffinity, gracefulEvictionTasks or workloadAffinity. It is "" for those
	// that are chosen.
	RefusedBy string
	// Rank is from 1, among the clusters that the filters let through; 0 for the others.
	Rank int
	// Score is the weighted sum of Scores.
	Score  int64
	Scores []NamedScore
}

// NamedScore is what a scorer gave a cluster, from -100 to 100.
type NamedScore struct {
	Scorer string
	Weight int
	Score  int32
}

// Verdicts returns the verdict on each cluster of the fleet, in the order of names.
func (r Result) Verdicts() iter.Seq[Verdict] {
	return func(yield func(Verdict) bool) {
		for i := range r.verdicts {
			if !yield(r.at(i)) {
				return
			}
		}
	}
}

// Verdict returns the verdict on a cluster; false if the fleet has none of the name.
func (r Result) Verdict(cluster string) (Verdict, bool) {
	i, found := r.round.fleet.Find(cluster)
	if !found {
		return Verdict{}, false
	}
	return r.at(i), true
}

func (r Result) at(i int) Verdict {
	c := r.round.fleet.At(i)
	v := r.verdicts[i]
	full := Verdict{Cluster: c.Name, Chosen: v.code == codeChosen, Reason: r.reason(c, v), RefusedBy: v.code.String(), Rank: v.rank}
	n, scored := slices.BinarySearch(r.scored, i)
	if !scored {
		return full
	}
	full.Score = r.totals[i]
	for k, weighted := range r.request.scorers {
		if _, ours := weighted.Scorer.(preference); ours && r.columns[k][n] == 0 {
			continue // the user did not ask for it
		}
		full.Scores = append(full.Scores, NamedScore{Scorer: weighted.Scorer.Name(), Weight: weighted.Weight, Score: r.columns[k][n]})
	}
	return full
}

// Check is what a filter says about a cluster.
type Check struct {
	// Filter is what a verdict calls it.
	Filter string
	// Objections are all that it has against the cluster; none if it lets it through.
	Objections []string
}

// Checks returns what each filter says about a cluster of the fleet, also those
// after the first that refused it.
func (r Result) Checks(cluster string) []Check {
	i, found := r.round.fleet.Find(cluster)
	if !found {
		return nil
	}
	var checks []Check
	for _, f := range r.request.filters {
		// A round of its own: what this costs, and what fails, is not the result's.
		now := &round{fleet: r.round.fleet, now: r.round.now, kept: r.round.kept}
		checks = append(checks, Check{Filter: f.code().String(), Objections: f.objections(now, i, r.round.fleet.At(i))})
	}
	return checks
}

func (r Result) reason(c *view.Cluster, v verdict) string {
	switch v.code {
	case codeChosen:
		return "chosen"
	case codeSpread:
		constraint := r.request.spread[v.detail]
		value, has := constraint.domain(c)
		if !has {
			return fmt.Sprintf("it has no %s", constraint.topology())
		}
		return fmt.Sprintf("one more with %s=%s would be more than maxSkew %d ahead of another", constraint.topology(), value, constraint.MaxSkew)
	case codeRank:
		return fmt.Sprintf("others rank higher, and %d were wanted", r.request.count)
	default:
		for _, f := range r.request.filters {
			if f.code() == v.code {
				return f.explain(c, v.detail)
			}
		}
		return ""
	}
}

// Sum is how many clusters were refused for a reason.
type Sum struct {
	Reason   string
	Clusters int
}

// Refused sums the clusters of the sets that are not chosen by their reasons,
// the most frequent first.
func (r Result) Refused() []Sum {
	counts := map[string]int{}
	outranked := 0 // mostly the most, and all for the same reason
	for i, v := range r.verdicts {
		switch v.code {
		case codeChosen, codeSet:
		case codeRank:
			outranked++
		default:
			counts[r.reason(r.round.fleet.At(i), v)]++
		}
	}
	if outranked > 0 {
		counts[r.reason(nil, verdict{code: codeRank})] = outranked
	}
	sums := make([]Sum, 0, len(counts))
	for reason, clusters := range counts {
		sums = append(sums, Sum{reason, clusters})
	}
	slices.SortFunc(sums, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), strings.Compare(a.Reason, b.Reason))
	})
	return sums
}
