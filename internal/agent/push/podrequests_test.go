// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// Pods are counted over more than one page, within the limits of what is read of
// a member, and no more once nobody asks for them.
func TestThePodsOfAPushClusterAreCounted(t *testing.T) {
	const waiting = 260
	l := newLab(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	expect.NoError(t, l.member.client.Create(t.Context(), node))
	node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")}
	expect.NoError(t, l.member.client.Status().Update(t.Context(), node))
	for i := range waiting + 1 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
			}}},
		}
		if i == waiting {
			pod.Spec.NodeName, pod.Spec.Containers[0].Resources.Requests["cpu"] = "node", resource.MustParse("2500m")
		}
		expect.NoError(t, l.member.client.Create(t.Context(), pod))
	}
	l.start(local(), work.PartOptions{})
	l.join("c1")
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonConnected)

	models := func(value string) {
		t.Helper()
		connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resourceModels":`+value+`}}`))
		expect.NoError(t, l.hub.client.Patch(t.Context(), connection, patch))
	}
	told := func(what string, is func(*fleetv1alpha1.ResourceSummary, bool) bool) {
		t.Helper()
		l.eventually(what, func(ctx context.Context) (string, bool) {
			found := &fleetv1alpha1.ClusterConnection{}
			expect.NoError(t, l.hub.client.Get(ctx, client.ObjectKey{Name: "c1"}, found))
			complete := meta.IsStatusConditionTrue(found.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary)
			summary := found.Status.ResourceSummary
			return fmt.Sprint(found.Status), summary != nil && is(summary, complete)
		})
	}
	text := func(list fleetv1alpha1.ResourceList, name string) string {
		quantity := list[name]
		return quantity.String()
	}
	models(`[{"grade":0,"ranges":[{"name":"cpu","min":"0","max":"1"}]},{"grade":1,"ranges":[{"name":"cpu","min":"1","max":"2"}]},{"grade":2,"ranges":[{"name":"cpu","min":"2","max":"4"}]}]`)
	told("the sums and the grade of the node", func(s *fleetv1alpha1.ResourceSummary, complete bool) bool {
		return complete && text(s.Allocating, "cpu") == "26" && text(s.Allocating, "pods") == fmt.Sprint(waiting) &&
			text(s.Allocated, "cpu") == "2500m" && len(s.AllocatableModelings) == 3 && s.AllocatableModelings[1].Count == 1
	})
	models(`[]`)
	told("no grades", func(s *fleetv1alpha1.ResourceSummary, complete bool) bool {
		return complete && len(s.AllocatableModelings) == 0 && text(s.Allocated, "cpu") == "2500m"
	})
	models(`null`)
	told("no sums, as nobody asks for them", func(s *fleetv1alpha1.ResourceSummary, complete bool) bool {
		return !complete && len(s.Allocated)+len(s.Allocating) == 0 && text(s.Allocatable, "cpu") == "4"
	})
}
