// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(change func(*corev1.Node)) *corev1.Node {
	list := corev1.ResourceList{"cpu": resource.MustParse("1500m"), "example.com/gpu": resource.MustParse("1")}
	n := &corev1.Node{Status: corev1.NodeStatus{
		Capacity: list, Allocatable: list,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Images:     []corev1.ContainerImage{{Names: []string{"image"}}},
	}}
	if change != nil {
		change(n)
	}
	return n
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func empty(n *corev1.Node)    { n.Status = corev1.NodeStatus{} }
func broken(n *corev1.Node)   { n.Status.Conditions[1].Status = corev1.ConditionUnknown }
func heartbeat(n *corev1.Node) {
	n.ResourceVersion, n.Status.Conditions[1].LastHeartbeatTime = "2", metav1.NewTime(time.Unix(1, 0))
}

func TestTheSumsAreThoseOfAllNodes(t *testing.T) {
	// A node that has not said yet what it has, and one that is broken, count too.
	list := []corev1.Node{*node(empty), *node(nil), *node(cordoned), *node(broken)}
	capacity, allocatable := Resources[string](list)
	texts := func(list map[string]resource.Quantity) map[string]string {
		m := map[string]string{}
		for name, quantity := range list {
			m[name] = quantity.String()
		}
		return m
	}
	if diff := cmp.Diff(map[string]string{"cpu": "4500m", "example.com/gpu": "3"}, texts(capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "3", "example.com/gpu": "2"}, texts(allocatable)); diff != "" {
		t.Errorf("allocatable, without the cordoned one (-want +got):\n%s", diff)
	}
	if got := Ready(list); got != 2 {
		t.Errorf("%d nodes are ready, want 2", got)
	}
}

func TestASlimNodeSumsUpToTheSame(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){"well": nil, "cordoned": cordoned, "empty": empty, "broken": broken} {
		n := node(change)
		slim := Slim(n)
		if !Same(n, slim) {
			t.Errorf("%s: %+v became %+v", name, n, slim)
		}
		if len(slim.Status.Images) > 0 {
			t.Errorf("%s: it has its images", name)
		}
	}
}

func TestHeartbeatsMakeNoDifference(t *testing.T) {
	if !Same(node(nil), node(heartbeat)) {
		t.Error("a heartbeat makes a difference")
	}
	more := func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")} }
	for name, change := range map[string]func(*corev1.Node){"cordoned": cordoned, "broken": broken, "more": more} {
		if Same(node(nil), node(change)) {
			t.Errorf("%s makes no difference", name)
		}
	}
}
