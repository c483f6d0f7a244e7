// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

func claim(name string, labels map[string]string) clusterv1alpha1.ClusterClaim {
	return clusterv1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "v"},
	}
}

func TestReservedClaimsComeFirstAndCustomOnesAreLimited(t *testing.T) {
	rules := ClaimRules{CustomMax: 2, ReservedSuffixes: []string{".reserved"}}
	got := rules.claims([]clusterv1alpha1.ClusterClaim{
		claim("c", nil), claim("a", nil), claim("b", nil), claim("x.reserved", nil), claim(clusterv1alpha1.ClaimID, nil),
		claim("private", map[string]string{clusterv1.LabelSpokeOnly: ""}),
		{ObjectMeta: metav1.ObjectMeta{Name: "0-empty"}},
	})
	var names []string
	for _, c := range got {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{clusterv1alpha1.ClaimID, "x.reserved", "a", "b"}, names); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestAllocatableLeavesOutNodesThatTakeNoPods(t *testing.T) {
	list := corev1.ResourceList{"cpu": resource.MustParse("1500m"), "example.com/gpu": resource.MustParse("1")}
	capacity, allocatable := resources([]corev1.Node{
		{Status: corev1.NodeStatus{Capacity: list, Allocatable: list}},
		{Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{Capacity: list, Allocatable: list}},
	})
	texts := func(list clusterv1.ResourceList) map[string]string {
		m := map[string]string{}
		for name, quantity := range list {
			m[string(name)] = quantity.String()
		}
		return m
	}
	if diff := cmp.Diff(map[string]string{"cpu": "3", "example.com/gpu": "2"}, texts(capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "1500m", "example.com/gpu": "1"}, texts(allocatable)); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
}

func TestAFailedProbeHasToPersist(t *testing.T) {
	start := time.Unix(0, 0)
	h := health{}.after(start, nil)
	if !h.known || !h.healthy || h.next != start.Add(probeEvery) {
		t.Fatalf("after a probe that succeeded: %+v", h)
	}
	failure := errors.New("etcd is away")
	for _, at := range []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second} {
		if h = h.after(start.Add(at), failure); !h.healthy || h.next != start.Add(at+probeAgain) {
			t.Fatalf("after %v of failures: %+v, want it healthy and probed again in 5 s", at, h)
		}
	}
	if h = h.after(start.Add(persist), failure); h.healthy || !h.known || h.problem != failure.Error() {
		t.Fatalf("after 20 s of failures: %+v, want it unhealthy", h)
	}
	if h = h.after(start.Add(persist+probeAgain), nil); !h.healthy || !h.failing.IsZero() {
		t.Fatalf("after it came back: %+v", h)
	}
	if h := (health{}).after(start, failure); h.known {
		t.Errorf("after one failure at the start: %+v, want nothing to be known", h)
	}
}
