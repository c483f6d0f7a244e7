// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// ComponentSet is replicas of several kinds that are placed together: all of them fit into a
// cluster, or none is placed there.
type ComponentSet []SetComponent

// SetComponent is the replicas of a Set that need the same.
type SetComponent struct {
	Replicas int32
	Request  ReplicaRequest
}

// FittingSets returns how many further sets there is room for, beside what is used that
// the room does not account for yet. known is false if nobody has reported the
// room; nil is none.
func (s ComponentSet) FittingSets(room *view.FreeRoom, used view.Amounts) (sets int32, known bool) {
	if room == nil {
		return 0, false
	}
	total := s.totalAmounts()
	fit := int64(math.MaxInt32)
	counted := false
	for resource, amount := range total {
		if resource != corev1.ResourcePods && isGraded(room.Grades, resource) {
			counted = true
			continue
		}
		fit = min(fit, countFitting(room.Free[resource]-used[resource], amount))
	}
	if counted && fit > 0 {
		fit = min(fit, max(0, s.onNodes(room.Grades, fit)-setsIn(used, total)))
	}
	return int32(fit), true
}

// totalAmounts returns what one set needs of each resource, pods included: only what is
// more than 0.
func (s ComponentSet) totalAmounts() view.Amounts {
	const one = 1000
	total := view.Amounts{}
	for _, part := range s {
		if part.Replicas <= 0 {
			continue
		}
		total[corev1.ResourcePods] = plus(total[corev1.ResourcePods], times(one, int64(part.Replicas)))
		for _, n := range part.Request {
			total[n.resource] = plus(total[n.resource], times(n.amount, int64(part.Replicas)))
		}
	}
	return total
}

// times and plus end at the greatest number. What is as much does not fit anyway.
func times(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// setsIn returns how many sets take as much as is used, apart from pods.
func setsIn(used, total view.Amounts) int64 {
	var sets int64
	for resource, amount := range total {
		if taken := used[resource]; taken > 0 && resource != corev1.ResourcePods {
			sets = max(sets, (taken-1)/amount+1)
		}
	}
	return sets
}

// onNodes returns how many sets, up to a limit, the nodes of all grades have room
// for. It puts the parts on nodes one after the other, so that it finds no more
// than there is room for, and at times less.
func (s ComponentSet) onNodes(grades []view.Grade, limit int64) int64 {
	parts := slices.Clone(s)
	slices.SortStableFunc(parts, func(a, b SetComponent) int { return cmp.Compare(a.Request.onNodes(grades), b.Request.onNodes(grades)) })
	return int64(sort.Search(int(limit), func(n int) bool { return !canPackSets(parts, grades, int64(n)+1) }))
}

// nodeShelf is nodes that have the same left.
type nodeShelf struct {
	nodes, pods int64
	left        view.Amounts
}

// canPackSets reports whether so many sets find room on nodes of the grades.
func canPackSets(parts []SetComponent, grades []view.Grade, sets int64) bool {
	shelves := make([]nodeShelf, 0, len(grades))
	for _, grade := range grades {
		shelves = append(shelves, nodeShelf{nodes: int64(grade.Nodes), pods: podsPerNode, left: grade.Least})
	}
	for _, part := range parts {
		replicas := times(sets, int64(max(0, part.Replicas)))
		var after []nodeShelf
		for _, each := range shelves {
			var split []nodeShelf
			split, replicas = each.putReplicas(part.Request, replicas)
			after = append(after, split...)
		}
		if replicas > 0 {
			return false
		}
		shelves = after
	}
	return true
}

// putReplicas puts replicas on the nodes, and returns what the nodes are then, and how many
// replicas found no room. Only the shelf that takes the last replica is divided, so
// that shelves stay few.
func (s nodeShelf) putReplicas(request ReplicaRequest, replicas int64) (after []nodeShelf, rest int64) {
	onEach := s.pods
	for _, n := range request {
		if left, graded := s.left[n.resource]; graded {
			onEach = min(onEach, countFitting(left, n.amount))
		}
	}
	if onEach == 0 || replicas == 0 || s.nodes == 0 {
		return []nodeShelf{s}, replicas
	}
	full := min(s.nodes, replicas/onEach)
	rest = replicas - full*onEach
	if full > 0 {
		after = append(after, s.occupiedNodes(request, full, onEach))
	}
	free := s.nodes - full
	if free > 0 && rest > 0 {
		after = append(after, s.occupiedNodes(request, 1, rest))
		free--
		rest = 0
	}
	if free > 0 {
		after = append(after, nodeShelf{nodes: free, pods: s.pods, left: s.left})
	}
	return after, rest
}

// occupiedNodes returns some of the nodes with so many replicas on each.
func (s nodeShelf) occupiedNodes(request ReplicaRequest, nodes, replicas int64) nodeShelf {
	left := maps.Clone(s.left)
	for _, n := range request {
		if _, graded := left[n.resource]; graded {
			left[n.resource] -= n.amount * replicas
		}
	}
	return nodeShelf{nodes: nodes, pods: s.pods - replicas, left: left}
}
