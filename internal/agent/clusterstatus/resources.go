// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// resources returns the sums over the nodes. Nodes that take no new pods have
// nothing to allocate.
func resources(nodes []corev1.Node) (capacity, allocatable clusterv1.ResourceList) {
	capacity, allocatable = clusterv1.ResourceList{}, clusterv1.ResourceList{}
	for i := range nodes {
		add(capacity, nodes[i].Status.Capacity)
		if !nodes[i].Spec.Unschedulable {
			add(allocatable, nodes[i].Status.Allocatable)
		}
	}
	return capacity, allocatable
}

func add(sums clusterv1.ResourceList, list corev1.ResourceList) {
	for name, quantity := range list {
		sum, ok := sums[clusterv1.ResourceName(name)]
		if !ok {
			sum = quantity.DeepCopy()
		} else {
			sum.Add(quantity)
		}
		sums[clusterv1.ResourceName(name)] = sum
	}
}
