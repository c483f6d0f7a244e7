// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity estimates how many more replicas a cluster has room for, by
// what its agent reports. An estimate is about all nodes together or, where nodes
// are counted by grade, about the nodes of each grade.
//
// The package is pure: it has no client, no clock and no logger.
package capacity

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// podsPerNode is how many replicas an estimate by grades puts on a node at most:
// what a kubelet allows unless it is configured.
const podsPerNode = 110

// ReplicaRequest is what a replica needs, besides being a pod.
type ReplicaRequest []resourceNeed

type resourceNeed struct {
	resource corev1.ResourceName
	amount   int64 // in thousandths, more than 0
}

// RequestOf returns what a replica needs by its resource requests.
func RequestOf(list corev1.ResourceList) ReplicaRequest {
	return requestOfAmounts(view.AmountsOf(list))
}

func requestOfAmounts(amounts view.Amounts) ReplicaRequest {
	var request ReplicaRequest
	for resource, amount := range amounts {
		if resource != corev1.ResourcePods {
			request = append(request, resourceNeed{resource, amount})
		}
	}
	slices.SortFunc(request, func(a, b resourceNeed) int { return cmp.Compare(a.resource, b.resource) })
	return request
}

// FittingReplicas returns how many further replicas there is room for, beside what is
// used that the room does not account for yet. known is false if nobody has
// reported the room; nil is none. What a cluster does not report, it does not have.
func (r ReplicaRequest) FittingReplicas(room *view.FreeRoom, used view.Amounts) (replicas int32, known bool) {
	if room == nil {
		return 0, false
	}
	const one = 1000
	fit := countFitting(room.RemainingAmount(corev1.ResourcePods, used), one)
	counted := slices.ContainsFunc(r, func(n resourceNeed) bool { return isGraded(room.Grades, n.resource) })
	if counted {
		fit = min(fit, max(0, r.onNodes(room.Grades)-r.replicasIn(used)))
	}
	for _, n := range r {
		if fit == 0 {
			break
		}
		if !counted || !isGraded(room.Grades, n.resource) {
			fit = min(fit, countFitting(room.RemainingAmount(n.resource, used), n.amount))
		}
	}
	return int32(max(0, min(fit, math.MaxInt32))), true
}

// Overdrawn returns for how many replicas a cluster lacks room that run there, or
// wait there for a node: by how much what is used is more than there is.
func (r ReplicaRequest) Overdrawn(room *view.FreeRoom, used view.Amounts) int32 {
	if room == nil {
		return 0
	}
	const one = 1000
	over := lackingReplicas(room.RemainingAmount(corev1.ResourcePods, used), one)
	for _, n := range r {
		over = max(over, lackingReplicas(room.RemainingAmount(n.resource, used), n.amount))
	}
	return int32(max(0, min(over, math.MaxInt32)))
}

func lackingReplicas(free, amount int64) int64 {
	if free >= 0 {
		return 0
	}
	return min(-(free+1)/amount, math.MaxInt32) + 1
}

func countFitting(free, amount int64) int64 { return max(0, free) / amount }

// isGraded reports whether grades are about a resource.
func isGraded(grades []view.Grade, resource corev1.ResourceName) bool {
	if len(grades) == 0 {
		return false
	}
	_, is := grades[0].Least[resource]
	return is
}

// onNodes returns how many replicas the nodes of all grades have room for, if
// each node has left the least that its grade says.
func (r ReplicaRequest) onNodes(grades []view.Grade) int64 {
	var sum int64
	for _, grade := range grades {
		onEach := int64(podsPerNode)
		for _, n := range r {
			if least, graded := grade.Least[n.resource]; graded {
				onEach = min(onEach, countFitting(least, n.amount))
			}
		}
		sum += onEach * int64(grade.Nodes)
	}
	return sum
}

// replicasIn returns how many replicas of the request take as much as is used.
func (r ReplicaRequest) replicasIn(used view.Amounts) int64 {
	var replicas int64
	for _, n := range r {
		replicas = max(replicas, ceilDivide(max(0, used[n.resource]), n.amount))
	}
	return replicas
}

// ceilDivide returns how many times an amount is needed for as much.
func ceilDivide(much, amount int64) int64 {
	if much <= 0 {
		return 0
	}
	return (much-1)/amount + 1
}
