// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Replicas are those of clusters by name. A cluster with none is not among them.
type Replicas map[string]int32

// ObservedState is what was seen of an object so far. The zero value has seen nothing.
type ObservedState struct {
	// since is when the replicas began to be where they are with a better place for
	// some, and has where they are.
	since time.Time
	has   Replicas
	// steps are by how many the replicas of each cluster would change, by all that was
	// seen since: of several opinions about a cluster the one that moves least.
	steps map[string]int32
}

// ObservedReplicas is what is seen of an object at a time.
type ObservedReplicas struct {
	At time.Time
	// Has is where its replicas are, and Wants where they would be if they were divided
	// now.
	Has, Wants Replicas
	// Moved is when some of them were moved last; zero is never.
	Moved time.Time
	// Fixed are clusters whose replicas neither come nor go.
	Fixed map[string]bool
}

// Step is what moves now.
type Step struct {
	// To is where the replicas are then.
	To Replicas
	// Moves is how many replicas go to another cluster, and Rest how many more would, if
	// it stays as it is.
	Moves, Rest int64
}

// NextStep takes in what is seen, and returns what moves now; nil is nothing. Replicas
// move when all that was seen for a window agrees that they are better off
// elsewhere, never more of them than the budget, and never within a window of
// the last move. So what is better only now and then moves nothing, and the
// capacity that clusters report has caught up by the next move.
func (s ObservedState) NextStep(seen ObservedReplicas, set Settings) (ObservedState, *Step) {
	steps := seen.replicaSteps()
	if s.since.IsZero() || !maps.Equal(s.has, seen.Has) {
		s = ObservedState{since: seen.At, has: maps.Clone(seen.Has), steps: steps}
	} else {
		s.steps = mergeLeastSteps(s.steps, steps)
	}
	give, take := s.giversAndTakers()
	if len(give) == 0 || len(take) == 0 {
		return ObservedState{since: seen.At, has: maps.Clone(seen.Has), steps: steps}, nil
	}
	if seen.At.Sub(s.since) < set.Window || seen.At.Sub(seen.Moved) < set.Window {
		return s, nil
	}
	step := moveReplicas(seen.Has, give, take, set.Budget)
	return ObservedState{}, &step
}

// replicaSteps returns by how many the replicas of each cluster would change.
func (seen ObservedReplicas) replicaSteps() map[string]int32 {
	steps := map[string]int32{}
	for name, wants := range seen.Wants {
		steps[name] = wants
	}
	for name, has := range seen.Has {
		steps[name] -= has
	}
	maps.DeleteFunc(steps, func(name string, by int32) bool { return by == 0 || seen.Fixed[name] })
	return steps
}

// mergeLeastSteps returns of two opinions about each cluster the one that moves less: none
// if they are opposed.
func mergeLeastSteps(a, b map[string]int32) map[string]int32 {
	steps := map[string]int32{}
	for name, one := range a {
		switch other := b[name]; {
		case one > 0 && other > 0:
			steps[name] = min(one, other)
		case one < 0 && other < 0:
			steps[name] = max(one, other)
		}
	}
	return steps
}

// side is a cluster that gives replicas, or takes them.
type side struct {
	name string
	left int32
}

// giversAndTakers returns the clusters that give replicas and those that take them.
func (s ObservedState) giversAndTakers() (give, take []side) {
	for _, name := range slices.Sorted(maps.Keys(s.steps)) {
		if by := s.steps[name]; by < 0 {
			give = append(give, side{name, -by})
		} else {
			take = append(take, side{name, by})
		}
	}
	return give, take
}

// moveReplicas moves what the budget lets, from where most is too much to where most is
// missing.
func moveReplicas(has Replicas, give, take []side, budget Budget) Step {
	all := min(sumRemaining(give), sumRemaining(take))
	step := Step{To: maps.Clone(has), Moves: min(all, budget.BudgetedReplicas(totalReplicas(has)))}
	step.Rest = all - step.Moves
	for range step.Moves {
		from := sideWithMost(give)
		to := sideWithMost(take)
		from.left--
		to.left--
		step.To[from.name]--
		step.To[to.name]++
	}
	maps.DeleteFunc(step.To, func(_ string, replicas int32) bool { return replicas == 0 })
	return step
}

// sideWithMost returns the side with most left, the first by name of several.
func sideWithMost(sides []side) *side {
	best := &sides[0]
	for n := range sides {
		if sides[n].left > best.left {
			best = &sides[n]
		}
	}
	return best
}

func sumRemaining(sides []side) int64 {
	var all int64
	for _, one := range sides {
		all += int64(one.left)
	}
	return all
}

func totalReplicas(of Replicas) int64 {
	var all int64
	for _, replicas := range of {
		all += int64(replicas)
	}
	return all
}

// ReplicaChange is by how many replicas those of a cluster change.
type ReplicaChange struct {
	Cluster       string
	Before, After int32
}

// CompareReplicas returns what changes between two divisions, in the order of names.
func CompareReplicas(before, after Replicas) []ReplicaChange {
	var changes []ReplicaChange
	for name, was := range before {
		if is := after[name]; is != was {
			changes = append(changes, ReplicaChange{name, was, is})
		}
	}
	for name, is := range after {
		if _, had := before[name]; !had {
			changes = append(changes, ReplicaChange{name, 0, is})
		}
	}
	slices.SortFunc(changes, func(a, b ReplicaChange) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return changes
}
