// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	capacity, allocatable := SumResources[string](list)
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
	if got := CountReady(list); got != 2 {
		t.Errorf("%d nodes are ready, want 2", got)
	}
}

func TestASlimNodeSumsUpToTheSame(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){"well": nil, "cordoned": cordoned, "empty": empty, "broken": broken, "placed": at("a", "eu", "aws:///1")} {
		n := node(change)
		slim := SlimNode(n)
		if !EqualForSummary(n, slim) {
			t.Errorf("%s: %+v became %+v", name, n, slim)
		}
		if len(slim.Status.Images) > 0 {
			t.Errorf("%s: it has its images", name)
		}
	}
}

func TestHeartbeatsMakeNoDifference(t *testing.T) {
	if !EqualForSummary(node(nil), node(heartbeat)) {
		t.Error("a heartbeat makes a difference")
	}
	more := func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")} }
	for name, change := range map[string]func(*corev1.Node){
		"cordoned": cordoned, "broken": broken, "more": more,
		"a zone": at("a", "", ""), "a region": at("", "a", ""), "a provider": at("", "", "a://1"),
	} {
		if EqualForSummary(node(nil), node(change)) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// at puts a node somewhere; what is empty it does not tell.
func at(zone, region, providerID string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.ProviderID = providerID
		for label, value := range map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: region} {
			if value != "" {
				metav1.SetMetaDataLabel(&n.ObjectMeta, label, value)
			}
		}
	}
}

func TestPlaceOf(t *testing.T) {
	long := strings.Repeat("z", placeBytesMax+1)
	for name, test := range map[string]struct {
		nodes []func(*corev1.Node)
		want  NodeTopology
	}{
		"nothing is told":      {[]func(*corev1.Node){nil, at("", "", "")}, NodeTopology{}},
		"one place":            {[]func(*corev1.Node){at("eu-b", "eu", "aws:///eu-b/i-1"), at("eu-a", "eu", "aws:///eu-a/i-2"), nil}, NodeTopology{[]string{"eu-a", "eu-b"}, "eu", "aws"}},
		"two regions":          {[]func(*corev1.Node){at("eu-a", "eu", "aws:///1"), at("us-a", "us", "gce://2")}, NodeTopology{[]string{"eu-a", "us-a"}, "", ""}},
		"a name without sense": {[]func(*corev1.Node){at(long, long, long+"://1"), at("", "", "i-1")}, NodeTopology{}},
	} {
		var list []corev1.Node
		for _, change := range test.nodes {
			list = append(list, *node(change))
		}
		if diff := cmp.Diff(test.want, TopologyOf(list), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var many []corev1.Node
	for i := range zonesMax + 1 {
		many = append(many, *node(at(fmt.Sprintf("zone-%03d", i), "", "")))
	}
	if got := len(TopologyOf(many).Zones); got != zonesMax {
		t.Errorf("%d zones are told", got)
	}
}
