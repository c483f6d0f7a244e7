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

// Resources returns the sums over the nodes. Nodes that take no new pods have
// nothing to allocate.
func Resources[Name ~string](list []corev1.Node) (capacity, allocatable map[Name]resource.Quantity) {
	capacity = map[Name]resource.Quantity{}
	allocatable = map[Name]resource.Quantity{}
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

const (
	// zonesMax is how many zones a cluster may have, and placeBytesMax how long the
	// name of a place may be, as the value of a label.
	zonesMax      = 100
	placeBytesMax = 63
)

// Place is where nodes are, and whose they are.
type Place struct {
	// Zones are those of all nodes, sorted.
	Zones []string
	// Region and Provider are empty if the nodes differ in them.
	Region, Provider string
}

// PlaceOf returns where the nodes are, as far as they tell: by their labels, and
// by the schemes of their providerIDs.
func PlaceOf(list []corev1.Node) Place {
	zones := sets.New[string]()
	regions := sets.New[string]()
	providers := sets.New[string]()
	for i := range list {
		zone, region, provider := placeOf(&list[i])
		insert(zones, zone)
		insert(regions, region)
		insert(providers, provider)
	}
	sorted := sets.List(zones)
	return Place{Zones: sorted[:min(len(sorted), zonesMax)], Region: only(regions), Provider: only(providers)}
}

func placeOf(node *corev1.Node) (zone, region, provider string) {
	provider, _, found := strings.Cut(node.Spec.ProviderID, "://")
	if !found {
		provider = ""
	}
	return node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelTopologyRegion], provider
}

// insert inserts a name, if it is one.
func insert(names sets.Set[string], name string) {
	if name != "" && len(name) <= placeBytesMax {
		names.Insert(name)
	}
}

func only(names sets.Set[string]) string {
	if len(names) != 1 {
		return ""
	}
	return sets.List(names)[0]
}

// Same tells whether two states of a node make no difference to the sums and to
// where the nodes are. Most updates of nodes are heartbeats.
func Same(before, after *corev1.Node) bool {
	zone, region, provider := placeOf(before)
	zoneAfter, regionAfter, providerAfter := placeOf(after)
	return ready(before) == ready(after) && before.Spec.Unschedulable == after.Spec.Unschedulable &&
		zone == zoneAfter && region == regionAfter && provider == providerAfter &&
		equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity) &&
		equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}

// Slim returns what this package reads of a node. The list of images alone can
// be 20 KiB per node.
func Slim(node *corev1.Node) *corev1.Node {
	slim := &corev1.Node{
		Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, ProviderID: node.Spec.ProviderID},
		Status: corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}
	slim.Name = node.Name
	slim.UID = node.UID
	slim.ResourceVersion = node.ResourceVersion
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Labels[label]; ok {
			metav1.SetMetaDataLabel(&slim.ObjectMeta, label, value)
		}
	}
	if ready(node) {
		slim.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return slim
}
