// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes sums up the nodes of a cluster.
package nodes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources returns the sums over the nodes. Nodes that take no new pods have
// nothing to allocate.
func Resources[Name ~string](list []corev1.Node) (capacity, allocatable map[Name]resource.Quantity) {
	capacity, allocatable = map[Name]resource.Quantity{}, map[Name]resource.Quantity{}
	for i := range list {
		add(capacity, list[i].Status.Capacity)
		if !list[i].Spec.Unschedulable {
			add(allocatable, list[i].Status.Allocatable)
		}
	}
	return capacity, allocatable
}

func add[Name ~string](sums map[Name]resource.Quantity, list corev1.ResourceList) {
	for name, quantity := range list {
		sum, ok := sums[Name(name)]
		if !ok {
			sum = quantity.DeepCopy()
		} else {
			sum.Add(quantity)
		}
		sums[Name(name)] = sum
	}
}

// Ready returns how many of the nodes are ready.
func Ready(list []corev1.Node) int {
	n := 0
	for i := range list {
		if ready(&list[i]) {
			n++
		}
	}
	return n
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Same tells whether two states of a node make no difference to the sums. Most
// updates of nodes are heartbeats.
func Same(before, after *corev1.Node) bool {
	return ready(before) == ready(after) && before.Spec.Unschedulable == after.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity) &&
		equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}

// Slim returns what this package reads of a node. The list of images alone can
// be 20 KiB per node.
func Slim(node *corev1.Node) *corev1.Node {
	slim := &corev1.Node{
		Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}
	slim.Name, slim.UID, slim.ResourceVersion = node.Name, node.UID, node.ResourceVersion
	if ready(node) {
		slim.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return slim
}
