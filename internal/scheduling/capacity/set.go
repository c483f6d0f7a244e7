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

// packedMax is how many parts of a set are put on nodes one after the other, which takes as long as the
// square of their number. Of more than these the small ones count as if they were all alike.
const packedMax = 16

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
	return s.CountSets(room).FittingSets(room, used)
}

// SetCount is what of the room for sets does not depend on what is used beside it. It takes longer to
// find than the rest.
type SetCount struct {
	total view.Amounts
	// graded says that nodes are counted by what the sets need, and onNodes how many of these they
	// have room for, as far as all together have.
	graded  bool
	onNodes int64
}

// CountSets counts how many sets the nodes of a cluster have room for.
func (s ComponentSet) CountSets(room *view.FreeRoom) SetCount {
	count := SetCount{total: s.totalAmounts()}
	if room == nil {
		return count
	}
	var fit int64
	if fit, count.graded = count.fitTogether(room, nil); count.graded && fit > 0 {
		count.onNodes = s.onNodes(room.Grades, fit)
	}
	return count
}

// FittingSets returns how many further sets there is room for, as FittingSets of the set does. The
// room is the one that was counted.
func (c SetCount) FittingSets(room *view.FreeRoom, used view.Amounts) (sets int32, known bool) {
	if room == nil {
		return 0, false
	}
	fit, _ := c.fitTogether(room, used)
	if c.graded && fit > 0 {
		fit = min(fit, max(0, min(fit, c.onNodes)-setsIn(used, c.total)))
	}
	return int32(fit), true //nolint:gosec // fitTogether returns no more
}

// fitTogether returns how many sets all nodes together have room for, by what grades are not about,
// and whether there is something that they are about.
func (c SetCount) fitTogether(room *view.FreeRoom, used view.Amounts) (fit int64, graded bool) {
	fit = math.MaxInt32
	for resource, amount := range c.total {
		if resource != corev1.ResourcePods && isGraded(room.Grades, resource) {
			graded = true
			continue
		}
		if fit = min(fit, countFitting(room.RemainingAmount(resource, used), amount)); fit == 0 {
			break
		}
	}
	return fit, graded
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
		total[corev1.ResourcePods] = view.AddAmounts(total[corev1.ResourcePods], view.MultiplyAmount(one, int64(part.Replicas)))
		for _, n := range part.Request {
			total[n.resource] = view.AddAmounts(total[n.resource], view.MultiplyAmount(n.amount, int64(part.Replicas)))
		}
	}
	return total
}

// setsIn returns how many sets take as much as is used, apart from pods.
func setsIn(used, total view.Amounts) int64 {
	var sets int64
	for resource, amount := range total {
		if taken := used[resource]; taken > 0 && resource != corev1.ResourcePods {
			sets = max(sets, ceilDivide(taken, amount))
		}
	}
	return sets
}

// onNodes returns how many sets, up to a limit, the nodes of all grades have room
// for. It puts the parts on nodes one after the other, so that it finds no more
// than there is room for, and at times less.
func (s ComponentSet) onNodes(grades []view.Grade, limit int64) int64 {
	parts := s.sortParts(grades)
	if len(parts) > packedMax {
		parts = append(parts[:packedMax-1:packedMax-1], parts[packedMax-1:].mergeParts())
	}
	return int64(sort.Search(int(limit), func(n int) bool { return !canPackSets(parts, grades, int64(n)+1) }))
}

// sortParts returns the parts that have replicas, from those that the nodes have least room for.
func (s ComponentSet) sortParts(grades []view.Grade) ComponentSet {
	type sizedPart struct {
		SetComponent
		room int64
	}
	sized := make([]sizedPart, 0, len(s))
	for _, part := range s {
		if part.Replicas > 0 {
			sized = append(sized, sizedPart{part, part.Request.onNodes(grades)})
		}
	}
	slices.SortStableFunc(sized, func(a, b sizedPart) int { return cmp.Compare(a.room, b.room) })
	sorted := make(ComponentSet, 0, len(sized))
	for _, part := range sized {
		sorted = append(sorted, part.SetComponent)
	}
	return sorted
}

// mergeParts returns one part with all replicas, each of which needs the most of each resource that
// one of them needs: where these have room, all parts have.
func (s ComponentSet) mergeParts() SetComponent {
	var replicas int64
	most := view.Amounts{}
	for _, part := range s {
		if part.Replicas <= 0 {
			continue
		}
		replicas += int64(part.Replicas)
		for _, n := range part.Request {
			most[n.resource] = max(most[n.resource], n.amount)
		}
	}
	return SetComponent{Replicas: int32(min(replicas, math.MaxInt32)), Request: requestOfAmounts(most)}
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
		replicas := view.MultiplyAmount(sets, int64(max(0, part.Replicas)))
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
