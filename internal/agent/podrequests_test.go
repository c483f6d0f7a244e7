// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// gpu is a resource that only nodes and pods of these tests have.
const gpu = "example.com/gpu"

func gpus(n string) corev1.ResourceList { return corev1.ResourceList{gpu: resource.MustParse(n)} }

func (h hub) gpuNode(name string, cordoned bool, has string) {
	h.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
	expect.NoError(h.T, h.Client.Create(h.T.Context(), node))
	node.Status.Capacity, node.Status.Allocatable = gpus(has), gpus(has)
	expect.NoError(h.T, h.Client.Status().Update(h.T.Context(), node))
}

func (h hub) gpuPod(name, node, requests string) *corev1.Pod {
	h.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: gpus(requests), Limits: gpus(requests)},
		}}},
	}
	expect.NoError(h.T, h.Client.Create(h.T.Context(), pod))
	return pod
}

// setModels asks for a grade of nodes with less than two GPUs left, and one of all
// others.
func (h hub) setModels(name string) {
	h.T.Helper()
	patch := fmt.Sprintf(`{"spec":{"resourceModels":[
		{"grade":0,"ranges":[{"name":%q,"min":"0","max":"2"}]},{"grade":1,"ranges":[{"name":%q,"min":"2","max":"1k"}]}]}}`, gpu, gpu)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	expect.NoError(h.T, h.Client.Patch(h.T.Context(), connection, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// annotate asks for what pods request, or no longer.
func (h hub) annotate(name, value string) {
	h.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fleetv1alpha1.AnnotationCountPods, value)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	expect.NoError(h.T, h.Client.Patch(h.T.Context(), connection, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// sums are what is told of pods, such as "allocating 2 allocated 3 of 1 node".
func sums(s *fleetv1alpha1.ClusterConnectionStatus) string {
	if s.ResourceSummary == nil {
		return ""
	}
	text := func(list fleetv1alpha1.ResourceList) string {
		quantity := list[gpu]
		return quantity.String()
	}
	high := int32(-1)
	for _, m := range s.ResourceSummary.AllocatableModelings {
		if m.Grade == 1 {
			high = m.Count
		}
	}
	return fmt.Sprintf("allocating %s, allocated %s, %d nodes have two left",
		text(s.ResourceSummary.Allocating), text(s.ResourceSummary.Allocated), high)
}

func TestHubIsToldWhatPodsRequestIfItAsks(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.gpuNode("gpu-a", false, "4")
	h.gpuNode("gpu-b", false, "4")
	h.gpuNode("gpu-cordoned", true, "4")
	h.gpuPod("gpu-running", "gpu-a", "3")
	waiting := h.gpuPod("gpu-waiting", "", "1")
	done := h.gpuPod("gpu-done", "gpu-b", "4")
	done.Status.Phase = corev1.PodSucceeded
	expect.NoError(t, h.Client.Status().Update(t.Context(), done))
	h.JoinCluster("requests", nil)
	expect.NoError(t, h.Client.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "requests"}}))
	const condition = fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary
	connection := h.awaitConnection("requests", "what nobody asks for not to be told", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return s.NodeSummary != nil
	})
	if meta.FindStatusCondition(connection.Status.Conditions, condition) != nil || len(connection.Status.ResourceSummary.Allocated) > 0 {
		t.Errorf("pods are counted that nobody asked for: %+v", connection.Status)
	}
	told := func(want string) func(*fleetv1alpha1.ClusterConnectionStatus) bool {
		return func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
			return sums(s) == want && meta.IsStatusConditionTrue(s.Conditions, condition)
		}
	}
	h.annotate("requests", "propagation")
	h.awaitConnection("requests", "the sums without grades of the user", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return strings.HasPrefix(sums(s), "allocating 1, allocated 3") && meta.IsStatusConditionTrue(s.Conditions, condition)
	})
	h.annotate("requests", "")
	h.awaitConnection("requests", "no sums, as nobody asks any more", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return meta.FindStatusCondition(s.Conditions, condition) == nil && len(s.ResourceSummary.Allocated) == 0
	})
	h.setModels("requests")
	h.awaitConnection("requests", "the sums", told("allocating 1, allocated 3, 1 nodes have two left"))
	expect.NoError(t, h.Client.SubResource("binding").Create(t.Context(), waiting, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "gpu-a"}}))
	h.gpuPod("gpu-more", "gpu-b", "3")
	h.awaitConnection("requests", "the sums after a change", told("allocating 0, allocated 7, 0 nodes have two left"))
}

func TestAgentThatMayNotListPodsSaysSo(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.JoinCluster("podless", nil)
	role := &rbacv1.ClusterRole{}
	expect.NoError(t, h.Client.Get(t.Context(), client.ObjectKey{Name: "home-podless"}, role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods") })
	expect.NoError(t, h.Client.Update(t.Context(), role))
	expect.NoError(t, h.Client.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "podless"}}))
	h.setModels("podless")
	connection := h.awaitConnection("podless", "that pods are not counted", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == fleetv1alpha1.ClusterConnectionReasonPodsForbidden
	})
	if s := connection.Status.ResourceSummary; s == nil || len(s.Allocated)+len(s.Allocating)+len(s.AllocatableModelings) > 0 {
		t.Errorf("what is not known is told: %+v", s)
	}
}
