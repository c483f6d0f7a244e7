// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/grades"
)

// Amounts are quantities of resources in thousandths of their units.
type Amounts map[corev1.ResourceName]int64

// AmountsOf returns the quantities of a list.
func AmountsOf(list corev1.ResourceList) Amounts {
	amounts := make(Amounts, len(list))
	for name, quantity := range list {
		amounts[name] = quantity.MilliValue()
	}
	return amounts
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
		room.Free[corev1.ResourceName(name)] = quantity.MilliValue() - allocated.MilliValue() - allocating.MilliValue()
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
			grade.Least[corev1.ResourceName(model.Ranges[i].Name)] = model.Ranges[i].Min.MilliValue()
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
