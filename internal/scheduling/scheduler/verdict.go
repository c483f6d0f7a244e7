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

// verdictCode is what became of a cluster.
type verdictCode uint8

const (
	codeEligible verdictCode = iota // while nothing is decided
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
func (c verdictCode) String() string {
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

// compactVerdict is what became of a cluster, in few bytes.
type compactVerdict struct {
	code verdictCode
	// detail is what the filter or the spread constraint said no about.
	detail int
	// rank is from 1, among those that the filters let through.
	rank int
}

// ScheduleResult is what ScheduleClusters found.
type ScheduleResult struct {
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

	round    *schedulingCycle
	request  ClusterRequest
	verdicts []compactVerdict
	totals   []int64
	scored   []int     // the clusters that have scores, in the order of names
	columns  [][]int32 // the scores by scorer, of these
}

// WantedCount returns how many clusters were wanted: with a request for all, those
// that the filters let through.
func (r ScheduleResult) WantedCount() int {
	if r.request.all {
		return r.EligibleCount()
	}
	return r.request.count
}

// MissingCount returns how many clusters were wanted and not found.
func (r ScheduleResult) MissingCount() int { return max(0, r.request.count-len(r.Targets)) }

// TotalScore returns the weighted sum of the scores of a cluster that the filters let
// through.
func (r ScheduleResult) TotalScore(cluster string) int64 {
	if i, found := r.round.fleet.FindCluster(cluster); found {
		return r.totals[i]
	}
	return 0
}

// EligibleCount returns how many clusters the filters let through.
func (r ScheduleResult) EligibleCount() int { return len(r.scored) }

// ScoredClusters returns the places in the fleet of the clusters that the filters let
// through, in the order of names, and their scores.
func (r ScheduleResult) ScoredClusters() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for _, i := range r.scored {
			if !yield(i, r.totals[i]) {
				return
			}
		}
	}
}

// MemberCount returns how many clusters are in the sets to choose from, and stay.
func (r ScheduleResult) MemberCount() int {
	members := 0
	for _, v := range r.verdicts {
		if v.code != codeSet && v.code != codeDeleting {
			members++
		}
	}
	return members
}

// ClusterVerdict is what became of a cluster, and why.
type ClusterVerdict struct {
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

// ClusterVerdicts returns the verdict on each cluster of the fleet, in the order of names.
func (r ScheduleResult) ClusterVerdicts() iter.Seq[ClusterVerdict] {
	return func(yield func(ClusterVerdict) bool) {
		for i := range r.verdicts {
			if !yield(r.verdictAt(i)) {
				return
			}
		}
	}
}

// VerdictForCluster returns the verdict on a cluster; false if the fleet has none of the name.
func (r ScheduleResult) VerdictForCluster(cluster string) (ClusterVerdict, bool) {
	i, found := r.round.fleet.FindCluster(cluster)
	if !found {
		return ClusterVerdict{}, false
	}
	return r.verdictAt(i), true
}

func (r ScheduleResult) verdictAt(i int) ClusterVerdict {
	c := r.round.fleet.ClusterAt(i)
	v := r.verdicts[i]
	full := ClusterVerdict{Cluster: c.Name, Chosen: v.code == codeChosen, Reason: r.verdictReason(c, v), RefusedBy: v.code.String(), Rank: v.rank}
	n, scored := slices.BinarySearch(r.scored, i)
	if !scored {
		return full
	}
	full.Score = r.totals[i]
	for k, weighted := range r.request.scorers {
		if _, ours := weighted.Scorer.(taintPreference); ours && r.columns[k][n] == 0 {
			continue // the user did not ask for it
		}
		full.Scores = append(full.Scores, NamedScore{Scorer: weighted.Scorer.Name(), Weight: weighted.Weight, Score: r.columns[k][n]})
	}
	return full
}

// FilterCheck is what a filter says about a cluster.
type FilterCheck struct {
	// Filter is what a verdict calls it.
	Filter string
	// Objections are all that it has against the cluster; none if it lets it through.
	Objections []string
}

// FilterChecks returns what each filter says about a cluster of the fleet, also those
// after the first that refused it.
func (r ScheduleResult) FilterChecks(cluster string) []FilterCheck {
	i, found := r.round.fleet.FindCluster(cluster)
	if !found {
		return nil
	}
	var checks []FilterCheck
	for _, f := range r.request.filters {
		// A round of its own: what this costs, and what fails, is not the result's.
		now := &schedulingCycle{fleet: r.round.fleet, now: r.round.now, kept: r.round.kept}
		checks = append(checks, FilterCheck{Filter: f.refusalCode().String(), Objections: f.objections(now, i, r.round.fleet.ClusterAt(i))})
	}
	return checks
}

func (r ScheduleResult) verdictReason(c *view.Cluster, v compactVerdict) string {
	switch v.code {
	case codeChosen:
		return "chosen"
	case codeSpread:
		constraint := r.request.spread[v.detail]
		value, has := constraint.topologyDomain(c)
		if !has {
			return fmt.Sprintf("it has no %s", constraint.topology())
		}
		return fmt.Sprintf("one more with %s=%s would be more than maxSkew %d ahead of another", constraint.topology(), value, constraint.MaxSkew)
	case codeRank:
		return fmt.Sprintf("others rank higher, and %d were wanted", r.request.count)
	default:
		for _, f := range r.request.filters {
			if f.refusalCode() == v.code {
				return f.explainRefusal(c, v.detail)
			}
		}
		return ""
	}
}

// ReasonCount is how many clusters were refused for a reason.
type ReasonCount struct {
	Reason   string
	Clusters int
}

// RefusalCounts sums the clusters of the sets that are not chosen by their reasons,
// the most frequent first.
func (r ScheduleResult) RefusalCounts() []ReasonCount {
	counts := map[string]int{}
	outranked := 0 // mostly the most, and all for the same reason
	for i, v := range r.verdicts {
		switch v.code {
		case codeChosen, codeSet:
		case codeRank:
			outranked++
		default:
			counts[r.verdictReason(r.round.fleet.ClusterAt(i), v)]++
		}
	}
	if outranked > 0 {
		counts[r.verdictReason(nil, compactVerdict{code: codeRank})] = outranked
	}
	sums := make([]ReasonCount, 0, len(counts))
	for reason, clusters := range counts {
		sums = append(sums, ReasonCount{reason, clusters})
	}
	slices.SortFunc(sums, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), strings.Compare(a.Reason, b.Reason))
	})
	return sums
}
