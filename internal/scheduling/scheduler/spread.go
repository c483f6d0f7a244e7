// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// SpreadConstraint says that the chosen clusters have to be spread evenly over
// the values of a label or of a claim: of no value more than MaxSkew clusters
// are chosen beyond those of any other value that an eligible cluster has. The
// terms are those of a pod's topologySpreadConstraints (KEP-895).
type SpreadConstraint struct {
	Path *field.Path
	// Key is the name of the label, or of the claim if Claim is set.
	Key   string
	Claim bool
	// MaxSkew is at least 1.
	MaxSkew int
	// Hard constraints hold, and fewer clusters than wanted are chosen if they
	// cannot otherwise; clusters without the label are not chosen. Others are a
	// preference, which comes before the score.
	Hard bool
}

func checkSpread(constraints []SpreadConstraint) field.ErrorList {
	var problems field.ErrorList
	for n, c := range constraints {
		if n == SpreadConstraintsMax {
			problems = append(problems, field.TooMany(c.Path, len(constraints), SpreadConstraintsMax))
			break
		}
		if c.Key == "" {
			problems = append(problems, field.Required(c.Path.Child("topologyKey"), "names the label or the claim"))
		}
		if c.MaxSkew < 1 {
			problems = append(problems, field.Invalid(c.Path.Child("maxSkew"), c.MaxSkew, "must be at least 1"))
		}
	}
	return problems
}

func (s SpreadConstraint) topologyDomain(c *view.Cluster) (value string, has bool) {
	if s.Claim {
		value, has = c.Claims[s.Key]
	} else {
		value, has = c.Labels[s.Key]
	}
	return value, has
}

func (s SpreadConstraint) topology() string {
	if s.Claim {
		return fmt.Sprintf("claim %s", s.Key)
	}
	return fmt.Sprintf("label %s", s.Key)
}

// nowhere is the domain of clusters without the label.
const nowhere = -1

// spreading chooses clusters under spread constraints, one after the other:
// always the best one that keeps all hard constraints and breaks the others
// least. Clusters with the same values of all keys are a corner; of each only the
// best one that is left can be the next, so a choice costs one look per corner.
type spreading struct {
	constraints []SpreadConstraint
	tallies     []tally
	corners     []corner
}

// corner is the clusters with the same values of all keys.
type corner struct {
	at     place
	ranked []int // places in the fleet, the best first
	ranks  []int // of these
}

// place is a domain for each constraint.
type place [SpreadConstraintsMax]int

// tally counts the chosen clusters by domain.
type tally struct {
	chosen []int
	// with is how many domains have so many chosen clusters.
	with  []int
	least int
}

// spreadDecides reports whether spread constraints decide which clusters are chosen. Soft
// ones do only if some are left over.
func (r ClusterRequest) spreadDecides(leftOver bool) bool {
	return len(r.spread) > 0 && (leftOver || slices.ContainsFunc(r.spread, func(s SpreadConstraint) bool { return s.Hard }))
}

func newSpreading(fleet view.Fleet, constraints []SpreadConstraint, ranked []int) *spreading {
	s := &spreading{constraints: constraints, tallies: make([]tally, len(constraints))}
	domains := make([]map[string]int, len(constraints))
	for k := range domains {
		domains[k] = map[string]int{}
	}
	found := map[place]int{}
	for rank, i := range ranked {
		var at place
		for k, constraint := range constraints {
			at[k] = nowhere
			if value, has := constraint.topologyDomain(fleet.ClusterAt(i)); has {
				domain, known := domains[k][value]
				if !known {
					domain = len(domains[k])
					domains[k][value] = domain
				}
				at[k] = domain
			}
		}
		n, known := found[at]
		if !known {
			n = len(s.corners)
			found[at] = n
			s.corners = append(s.corners, corner{at: at})
		}
		s.corners[n].ranked = append(s.corners[n].ranked, i)
		s.corners[n].ranks = append(s.corners[n].ranks, rank)
	}
	for k := range constraints {
		s.tallies[k] = tally{chosen: make([]int, len(domains[k])), with: []int{len(domains[k])}}
	}
	return s
}

// pickClusters returns the chosen clusters, as many as are wanted at most. It writes
// the verdict on those that a hard constraint bars.
func (s *spreading) pickClusters(wanted int, verdicts []compactVerdict) []int {
	var chosen []int
	for len(chosen) < wanted {
		best := -1
		least := 0
		for n := range s.corners {
			c := &s.corners[n]
			if len(c.ranked) == 0 {
				continue
			}
			excess, allowed := s.excessSkew(c.at)
			if !allowed {
				continue
			}
			if best < 0 || cmp.Or(cmp.Compare(excess, least), cmp.Compare(c.ranks[0], s.corners[best].ranks[0])) < 0 {
				best = n
				least = excess
			}
		}
		if best < 0 {
			s.barRemaining(verdicts)
			return chosen
		}
		c := &s.corners[best]
		chosen = append(chosen, c.ranked[0])
		c.ranked, c.ranks = c.ranked[1:], c.ranks[1:]
		for k := range s.constraints {
			s.tallies[k].countCluster(c.at[k])
		}
	}
	return chosen
}

// excessSkew returns how far one more cluster there would be beyond what the
// constraints that are a preference want, and false if a hard one forbids it.
func (s *spreading) excessSkew(at place) (excess int, allowed bool) {
	for k, constraint := range s.constraints {
		over := s.tallies[k].skewAfterAdding(at[k]) - constraint.MaxSkew
		switch {
		case at[k] == nowhere && constraint.Hard:
			return 0, false
		case at[k] == nowhere:
			excess++
		case over > 0 && constraint.Hard:
			return 0, false
		case over > 0:
			excess += over
		}
	}
	return excess, true
}

// barRemaining writes the verdict on the clusters that are left.
func (s *spreading) barRemaining(verdicts []compactVerdict) {
	for _, c := range s.corners {
		for k, constraint := range s.constraints {
			if !constraint.Hard || c.at[k] != nowhere && s.tallies[k].skewAfterAdding(c.at[k]) <= constraint.MaxSkew {
				continue
			}
			for _, i := range c.ranked {
				verdicts[i].code = codeSpread
				verdicts[i].detail = k
			}
			break
		}
	}
}

// skewAfterAdding returns by how many the domain would be ahead of the last one with one
// more cluster.
func (t *tally) skewAfterAdding(domain int) int {
	if domain == nowhere {
		return 0
	}
	return t.chosen[domain] + 1 - t.least
}

// countCluster counts one more cluster.
func (t *tally) countCluster(domain int) {
	if domain == nowhere {
		return
	}
	had := t.chosen[domain]
	t.chosen[domain]++
	if len(t.with) == had+1 {
		t.with = append(t.with, 0)
	}
	t.with[had]--
	t.with[had+1]++
	for t.with[t.least] == 0 {
		t.least++
	}
}
