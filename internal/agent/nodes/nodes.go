// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes sums up the nodes of a cluster, and tells where they are.
package nodes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// SumResources returns the sums over the nodes, of the first 128 resources that they have.
// Nodes that take no new pods have nothing to allocate.
func SumResources[Name ~string](list []corev1.Node) (capacity, allocatable map[Name]resource.Quantity) {
	var capacities, allocatables []corev1.ResourceList
	for i := range list {
		capacities = append(capacities, list[i].Status.Capacity)
		if !list[i].Spec.Unschedulable {
			allocatables = append(allocatables, list[i].Status.Allocatable)
		}
	}
	return sumLists[Name](capacities), sumLists[Name](allocatables)
}

func sumLists[Name ~string](lists []corev1.ResourceList) map[Name]resource.Quantity {
	names := countedResources(lists...)
	sums := make(map[Name]resource.Quantity, len(names))
	for _, list := range lists {
		for _, name := range names {
			quantity, ok := list[name]
			if !ok {
				continue
			}
			sum, ok := sums[Name(name)]
			if !ok {
				sum = quantity.DeepCopy()
			} else {
				sum.Add(quantity)
			}
			sums[Name(name)] = sum
		}
	}
	return sums
}

// CountReady returns how many of the nodes are ready.
func CountReady(list []corev1.Node) int {
	n := 0
	for i := range list {
		if isNodeReady(&list[i]) {
			n++
		}
	}
	return n
}

func isNodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

const (
	// zonesMax is how many zones a cluster may have, and placeBytesMax how long the
	// name of a place may be, as the value of a label.
	zonesMax      = 100
	placeBytesMax = 63
)

// NodeTopology is where nodes are, and whose they are.
type NodeTopology struct {
	// Zones are those of all nodes, sorted.
	Zones []string
	// Region and Provider are empty if the nodes differ in them.
	Region, Provider string
}

// TopologyOf returns where the nodes are, as far as they tell: by their labels, and
// by the schemes of their providerIDs.
func TopologyOf(list []corev1.Node) NodeTopology {
	zones := sets.New[string]()
	regions := sets.New[string]()
	providers := sets.New[string]()
	for i := range list {
		zone, region, provider := topologyOf(&list[i])
		insertPlace(zones, zone)
		insertPlace(regions, region)
		insertPlace(providers, provider)
	}
	sorted := sets.List(zones)
	return NodeTopology{Zones: sorted[:min(len(sorted), zonesMax)], Region: singleName(regions), Provider: singleName(providers)}
}

func topologyOf(node *corev1.Node) (zone, region, provider string) {
	provider, _, found := strings.Cut(node.Spec.ProviderID, "://")
	if !found {
		provider = ""
	}
	return node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelTopologyRegion], provider
}

// insertPlace inserts a name, if it is one.
func insertPlace(names sets.Set[string], name string) {
	if name != "" && len(name) <= placeBytesMax {
		names.Insert(name)
	}
}

func singleName(names sets.Set[string]) string {
	if len(names) != 1 {
		return ""
	}
	return sets.List(names)[0]
}

// EqualForSummary reports whether two states of a node make no difference to the sums and to
// where the nodes are. Most updates of nodes are heartbeats.
func EqualForSummary(before, after *corev1.Node) bool {
	zone, region, provider := topologyOf(before)
	zoneAfter, regionAfter, providerAfter := topologyOf(after)
	return isNodeReady(before) == isNodeReady(after) && before.Spec.Unschedulable == after.Spec.Unschedulable &&
		zone == zoneAfter && region == regionAfter && provider == providerAfter &&
		equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity) &&
		equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}

// SlimNode returns what this package reads of a node. The list of images alone can
// be 20 KiB per node.
func SlimNode(node *corev1.Node) *corev1.Node {
	slim := &corev1.Node{
		Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, ProviderID: node.Spec.ProviderID},
		Status: corev1.NodeStatus{Capacity: slimResources(node.Status.Capacity), Allocatable: slimResources(node.Status.Allocatable)},
	}
	slim.Name = node.Name
	slim.UID = node.UID
	slim.ResourceVersion = node.ResourceVersion
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Labels[label]; ok {
			metav1.SetMetaDataLabel(&slim.ObjectMeta, label, value)
		}
	}
	if isNodeReady(node) {
		slim.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return slim
}
