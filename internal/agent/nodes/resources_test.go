// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// invented returns so many resources that no node has, from a number on, and what each has.
func invented(from, count int) corev1.ResourceList {
	one := resource.MustParse("1")
	list := corev1.ResourceList{"cpu": one, "memory": one, "pods": one, "ephemeral-storage": one}
	for i := range count {
		list[corev1.ResourceName(fmt.Sprintf("a%07d", from+i))] = one
	}
	return list
}

// TestANodeKeepsFewResources: a member that made up a million names in eight nodes filled the
// memory of the agent of all members, which kept them and summed them up.
func TestANodeKeepsFewResources(t *testing.T) {
	long := corev1.ResourceName(strings.Repeat("0", resourceBytesMax+1))
	hostile := invented(0, 100_000)
	hostile[long] = resource.MustParse("1")
	slim := SlimNode(&corev1.Node{Status: corev1.NodeStatus{Capacity: hostile, Allocatable: hostile}})
	for list, kept := range map[string]corev1.ResourceList{"capacity": slim.Status.Capacity, "allocatable": slim.Status.Allocatable} {
		if len(kept) != resourcesMax {
			t.Errorf("%d resources are kept in %s, want %d", len(kept), list, resourcesMax)
		}
		for _, usual := range []corev1.ResourceName{"cpu", "memory", "pods", "ephemeral-storage", "a0000000"} {
			if _, ok := kept[usual]; !ok {
				t.Errorf("%s lacks %s", list, usual)
			}
		}
		if _, ok := kept[long]; ok {
			t.Errorf("%s has a name of %d bytes", list, len(long))
		}
	}
	few := invented(0, 3)
	few[long[1:]] = resource.MustParse("1")
	if kept := SlimNode(&corev1.Node{Status: corev1.NodeStatus{Capacity: few}}).Status.Capacity; len(kept) != len(few) {
		t.Errorf("%d resources of %d are kept", len(kept), len(few))
	}
}

// TestNamesOfResourcesFitIntoAReport: the hub refused all that a cluster says of itself, as somebody who runs a node of it made up long
// names.
func TestNamesOfResourcesFitIntoAReport(t *testing.T) {
	one := resource.MustParse("1")
	hostile := corev1.ResourceList{"cpu": one, "<": one, "é": one, "example.com/a_b.C": one}
	for i := range resourcesMax {
		hostile[corev1.ResourceName(fmt.Sprintf("f%0*d", resourceBytesMax-1, i))] = one
	}
	capacity, _ := SumResources[string]([]corev1.Node{*SlimNode(&corev1.Node{Status: corev1.NodeStatus{Capacity: hostile}})})
	bytes := 0
	for name := range capacity {
		bytes += len(name)
	}
	if bytes > namesBytesMax || bytes < namesBytesMax-resourceBytesMax {
		t.Errorf("the names have %d bytes, want nearly %d", bytes, namesBytesMax)
	}
	for name, counts := range map[string]bool{"cpu": true, "example.com/a_b.C": true, "<": false, "é": false} {
		if _, ok := capacity[name]; ok != counts {
			t.Errorf("%q counts: %t, want %t", name, ok, counts)
		}
	}
}

// TestTheSumsHaveFewResources: they are the same ones in whatever order the nodes are, so that
// a report does not change by that.
func TestTheSumsHaveFewResources(t *testing.T) {
	var list []corev1.Node
	for i := range 100 {
		resources := invented(i*resourcesMax/2, resourcesMax-4)
		list = append(list, corev1.Node{Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources}})
	}
	capacity, allocatable := SumResources[string](list)
	slices.Reverse(list)
	reversed, _ := SumResources[string](list)
	equal := func(a, b resource.Quantity) bool { return a.Equal(b) }
	if !maps.EqualFunc(capacity, allocatable, equal) || !maps.EqualFunc(capacity, reversed, equal) {
		t.Errorf("the sums differ: %v, %v, and with the nodes reversed %v", capacity, allocatable, reversed)
	}
	cpu, shared := capacity["cpu"], capacity[fmt.Sprintf("a%07d", resourcesMax/2)]
	if len(capacity) != resourcesMax || cpu.Value() != 100 || shared.Value() != 2 {
		t.Errorf("the sums have %d resources, among them cpu %s and that of two nodes %s; want %d, 100 and 2", len(capacity), &cpu, &shared, resourcesMax)
	}
}
