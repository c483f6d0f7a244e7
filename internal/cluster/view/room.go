// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/grades"
)

// Amounts are quantities of resources in thousandths of their units.
type Amounts map[corev1.ResourceName]int64

// RequestsMax is how many resources a replica may request: they are compared with what each cluster has.
const RequestsMax = 64

// AmountsOf returns the quantities of a list, only what is more than 0: who requests less than
// nothing would make room for others. Of more than RequestsMax resources it returns none: nothing
// is placed by these.
func AmountsOf(list corev1.ResourceList) Amounts {
	if len(list) > RequestsMax {
		return Amounts{}
	}
	amounts := make(Amounts, len(list))
	for name, quantity := range list {
		if amount := toThousandths(quantity); amount > 0 {
			amounts[name] = amount
		}
	}
	return amounts
}

// toThousandths returns a quantity in thousandths, or the number that is nearest to that.
func toThousandths(quantity resource.Quantity) int64 {
	const most = math.MaxInt64 / 1000
	switch {
	case quantity.CmpInt64(most) > 0:
		return math.MaxInt64
	case quantity.CmpInt64(-most) < 0:
		return -math.MaxInt64
	default:
		return quantity.MilliValue()
	}
}

// AddAmounts and MultiplyAmount return the sum and the product of amounts that are not less than 0. They end at the
// greatest number: what is as much does not fit anyway.
func AddAmounts(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// MultiplyAmount is described at AddAmounts.
func MultiplyAmount(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// RemainingAmount returns what is free of a resource beside what is used, which is not less than 0.
func (r *FreeRoom) RemainingAmount(name corev1.ResourceName, used Amounts) int64 {
	free := r.Free[name]
	if free < math.MinInt64+used[name] {
		return math.MinInt64
	}
	return free - used[name]
}

// FreeRoom is what a cluster has left for further pods.
type FreeRoom struct {
	// Free is what all nodes have left together: what they can allocate, without what
	// pods request as far as the agent counts that. It may be negative.
	Free Amounts
	// Grades are how many nodes have how much left, from the lowest grade that has
	// nodes. There are none if nobody has counted.
	Grades []Grade
}

// Grade is nodes that have left about the same.
type Grade struct {
	Nodes int32
	// Least is what each of them has left at least.
	Least Amounts
}

// RoomOf returns what a ClusterConnection says of the room, nil if nothing.
func RoomOf(connection *fleetv1alpha1.ClusterConnection) *FreeRoom {
	if connection == nil || connection.Status.ResourceSummary == nil || len(connection.Status.ResourceSummary.Allocatable) == 0 {
		return nil
	}
	summary := connection.Status.ResourceSummary
	room := &FreeRoom{Free: make(Amounts, len(summary.Allocatable))}
	for name, quantity := range summary.Allocatable {
		allocated := summary.Allocated[name]
		allocating := summary.Allocating[name]
		left := quantity.DeepCopy()
		left.Sub(allocated)
		left.Sub(allocating)
		room.Free[corev1.ResourceName(name)] = toThousandths(left)
	}
	counts := map[int32]int32{}
	for _, counted := range summary.AllocatableModelings {
		counts[counted.Grade] = counted.Count
	}
	if len(counts) == 0 {
		return room
	}
	for _, model := range grades.ModelsOf(&connection.Spec) {
		if counts[model.Grade] <= 0 {
			continue
		}
		grade := Grade{Nodes: counts[model.Grade], Least: make(Amounts, len(model.Ranges))}
		for i := range model.Ranges {
			grade.Least[corev1.ResourceName(model.Ranges[i].Name)] = toThousandths(model.Ranges[i].Min)
		}
		room.Grades = append(room.Grades, grade)
	}
	return room
}

// FromClusterWithRoom returns what is known about a cluster, as FromCluster does, and what replicas
// are placed by: the kinds that it serves and its room. These take longer to
// read, and few ask for them.
func FromClusterWithRoom(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) Cluster {
	c := FromCluster(cluster, connection)
	c.Served, c.Room = ServedBy(connection), RoomOf(connection)
	return c
}
