// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/testing/longtext"
)

// list returns a list of resources, such as "cpu", "1", "memory", "1Gi".
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(requests corev1.ResourceList) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}}
}

// TestLongTextsOfAPodAreNotKept has an API server make each text of a pod a megabyte, of which one
// byte in 32 counts.
func TestLongTextsOfAPodAreNotKept(t *testing.T) {
	whole := &corev1.Pod{}
	longtext.Fill(whole, 1<<20)
	kept := requestOf(whole)
	kept.UID, kept.ResourceVersion = "", "" // which the source of a watch cuts
	if bytes := longtext.Bytes(kept); bytes > nodeBytesMax {
		t.Errorf("%d bytes are kept, want at most %d", bytes, nodeBytesMax)
	}
}

// requestOf returns what counts of a pod that comes alone.
func requestOf(whole *corev1.Pod) *PodRequest { return new(ResourceNames).PodRequestOf(whole) }

func pod(uid, node string, requests corev1.ResourceList, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container(requests)}}}
	p.UID = types.UID(uid)
	for _, c := range change {
		c(p)
	}
	return p
}

func texts(sum RequestSum) map[string]string {
	m := map[string]string{}
	for name, quantity := range sum.ResourceQuantities() {
		m[name] = quantity.String()
	}
	return m
}

// TestFewContainersOfAPodCount has a pod with more containers, and statuses of them, than any API server stores.
func TestFewContainersOfAPodCount(t *testing.T) {
	whole := pod("a", "n", list("cpu", "1"))
	for range 2 * containersMax {
		whole.Spec.Containers = append(whole.Spec.Containers, container(list("cpu", "1")))
		whole.Spec.InitContainers = append(whole.Spec.InitContainers, container(list("cpu", "1")))
		whole.Status.ContainerStatuses = append(whole.Status.ContainerStatuses, corev1.ContainerStatus{Name: "other"})
	}
	if got := requestOf(whole).amounts; !slices.Equal(got, []resourceAmount{{"cpu", 1000 * containersMax}}) {
		t.Errorf("counted are %v", got)
	}
	if len(limitContainers(whole).Status.ContainerStatuses) > containersMax {
		t.Error("all statuses are gone through")
	}
}

func TestWhatAPodRequestsIsWhatTheSchedulerCounts(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   map[string]string
	}{
		"containers": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, container(list("cpu", "250m", "example.com/gpu", "2")))
		}, map[string]string{"pods": "1", "cpu": "1250m", "memory": "1Gi", "example.com/gpu": "2"}},
		"an init container needs more than all others": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container(list("cpu", "3"))}
		}, map[string]string{"pods": "1", "cpu": "3", "memory": "1Gi"}},
		"a sidecar runs beside them": {func(p *corev1.Pod) {
			sidecar := container(list("cpu", "100m"))
			sidecar.RestartPolicy = &always
			p.Spec.InitContainers = []corev1.Container{sidecar}
		}, map[string]string{"pods": "1", "cpu": "1100m", "memory": "1Gi"}},
		"overhead": {
			func(p *corev1.Pod) { p.Spec.Overhead = list("cpu", "50m") },
			map[string]string{"pods": "1", "cpu": "1050m", "memory": "1Gi"},
		},
		"of the pod as a whole": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "5")}
		}, map[string]string{"pods": "1", "cpu": "5", "memory": "1Gi"}},
		"what is zero is not there": {
			func(p *corev1.Pod) { p.Spec.Containers[0] = container(list("cpu", "0")) },
			map[string]string{"pods": "1"},
		},
		"half of a byte is one": {
			func(p *corev1.Pod) { p.Spec.Containers[0] = container(list("memory", "500m")) },
			map[string]string{"pods": "1", "memory": "1"},
		},
		"a pod that has failed": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, map[string]string{}},
		"a pod that is done":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, map[string]string{}},
	} {
		sums := &ClusterSums{}
		sums.SetPod(requestOf(pod("a", "n", list("cpu", "1", "memory", "1Gi"), test.change)))
		if diff := cmp.Diff(test.want, texts(sums.TakeSnapshot().Placed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSumsFollowThePods(t *testing.T) {
	s := &ClusterSums{}
	small, big := list("cpu", "100m"), list("cpu", "2", "memory", "1Gi")
	expect := func(when string, waiting, placed, onOne map[string]string) {
		t.Helper()
		taken := s.TakeSnapshot()
		for what, pair := range map[string][2]map[string]string{
			"waiting": {waiting, texts(taken.Waiting)}, "placed": {placed, texts(taken.Placed)}, "on one": {onOne, texts(taken.nodes["one"])},
		} {
			if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", when, what, diff)
			}
		}
	}
	none := map[string]string{}
	expect("at first", none, none, none)
	s.ReplacePods([]*PodRequest{requestOf(pod("a", "one", small)), requestOf(pod("b", "two", big)), requestOf(pod("c", "", big))})
	expect("with three pods", map[string]string{"pods": "1", "cpu": "2", "memory": "1Gi"},
		map[string]string{"pods": "2", "cpu": "2100m", "memory": "1Gi"}, map[string]string{"pods": "1", "cpu": "100m"})
	if s.SetPod(requestOf(pod("a", "one", small))) {
		t.Error("a pod that is the same changes a sum")
	}
	if !s.SetPod(requestOf(pod("c", "one", big))) || !s.SetPod(requestOf(pod("b", "two", small))) {
		t.Error("a pod that has a node now, or requests less, changes no sum")
	}
	expect("after two changes", none,
		map[string]string{"pods": "3", "cpu": "2200m", "memory": "1Gi"}, map[string]string{"pods": "2", "cpu": "2100m", "memory": "1Gi"})
	if !s.DeletePod("c") || s.DeletePod("c") || !s.SetPod(requestOf(pod("b", "two", small, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))) {
		t.Error("what is gone changes a sum twice, or not at all")
	}
	expect("after two are gone", none, map[string]string{"pods": "1", "cpu": "100m"}, map[string]string{"pods": "1", "cpu": "100m"})
	s.ReplacePods(nil)
	expect("without pods", none, none, none)
}

func TestLeft(t *testing.T) {
	s := &ClusterSums{}
	s.SetPod(requestOf(pod("a", "one", list("cpu", "1500m", "memory", "3Gi"))))
	s.SetPod(requestOf(pod("b", "", list("cpu", "1"))))
	node := func(name string, cordoned bool, allocatable corev1.ResourceList) corev1.Node {
		n := corev1.Node{Spec: corev1.NodeSpec{Unschedulable: cordoned}, Status: corev1.NodeStatus{Allocatable: allocatable}}
		n.Name = name
		return n
	}
	var left []map[string]string
	for _, list := range s.TakeSnapshot().RemainingPerNode([]corev1.Node{
		node("cordoned", true, list("cpu", "1")), node("one", false, list("cpu", "2", "memory", "2Gi", "pods", "110", "example.com/gpu", "1")),
		node("two", false, list("cpu", "1")),
	}) {
		m := map[string]string{}
		for name, quantity := range list {
			m[name] = quantity.String()
		}
		left = append(left, m)
	}
	want := []map[string]string{{"cpu": "500m", "memory": "0", "pods": "109", "example.com/gpu": "1"}, {"cpu": "1"}}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Whatever happened before, the sums are those of the pods that there are, and
// nothing is kept of those that are gone.
func TestSumsDependOnWhatThereIsOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, now := &ClusterSums{}, map[string]*PodRequest{}
	for i := range 5000 {
		uid := fmt.Sprint(random.IntN(100))
		if random.IntN(3) == 0 {
			delete(now, uid)
			s.DeletePod(types.UID(uid))
			continue
		}
		p := pod(uid, []string{"", "one", "two"}[random.IntN(3)], list("cpu", fmt.Sprint(random.IntN(4)), "memory", fmt.Sprint(random.IntN(2))))
		now[uid] = requestOf(p)
		s.SetPod(requestOf(p))
		if i%100 != 0 {
			continue
		}
		fresh := &ClusterSums{}
		for _, p := range now {
			fresh.SetPod(p)
		}
		got, want := s.TakeSnapshot(), fresh.TakeSnapshot()
		for what, pair := range map[string][2]RequestSum{"waiting": {want.Waiting, got.Waiting}, "placed": {want.Placed, got.Placed}, "one": {want.nodes["one"], got.nodes["one"]}} {
			if diff := cmp.Diff(texts(pair[0]), texts(pair[1])); diff != "" {
				t.Fatalf("%s after %d changes (-want +got):\n%s", what, i, diff)
			}
		}
	}
	for uid := range now {
		s.DeletePod(types.UID(uid))
	}
	if len(s.pods)+len(s.nodes)+len(s.shapes)+len(s.names) > 0 {
		t.Errorf("%d pods, %d nodes, %d shapes and %d names are left", len(s.pods), len(s.nodes), len(s.shapes), len(s.names))
	}
}

// Who may create pods may not make the agent keep or report any number of
// resources.
func TestMadeUpResourcesAreLimited(t *testing.T) {
	s := &ClusterSums{}
	for i := range 1000 {
		requests := corev1.ResourceList{}
		for j := range 50 {
			requests[corev1.ResourceName(fmt.Sprintf("example.com/%d-%d", i, j))] = resource.MustParse("1")
		}
		s.SetPod(requestOf(pod(fmt.Sprint(i), "", requests)))
	}
	if got := len(s.TakeSnapshot().Waiting.ResourceQuantities()); got != namesMax+1 {
		t.Errorf("%d resources are told of, want %d and the pods", got, namesMax)
	}
	for i := range 1000 {
		s.DeletePod(types.UID(fmt.Sprint(i)))
	}
	if s.SetPod(requestOf(pod("a", "", list("cpu", "1")))); texts(s.TakeSnapshot().Waiting)["cpu"] != "1" {
		t.Error("when they are gone, another resource does not count")
	}
}

// TestMadeUpResourcesHideNoUsualOne lists pods that wait for ever, and request as many made-up resources as count,
// before those that run.
func TestMadeUpResourcesHideNoUsualOne(t *testing.T) {
	names, sums := &ResourceNames{}, &ClusterSums{}
	usual := list("cpu", "2", "memory", "1Gi", "ephemeral-storage", "1Gi")
	both := maps.Clone(usual)
	var all []*PodRequest
	for i := range namesMax / perPodMax {
		madeUp := corev1.ResourceList{}
		for j := range perPodMax {
			madeUp[corev1.ResourceName(fmt.Sprintf("a.example/%d-%d", i, j))] = resource.MustParse("1")
		}
		all = append(all, names.PodRequestOf(pod(fmt.Sprint("waits ", i), "", madeUp)))
		maps.Copy(both, madeUp)
	}
	all = append(all, names.PodRequestOf(pod("usual", "n", usual)), names.PodRequestOf(pod("both", "n", both)))
	sums.ReplacePods(all)
	placed := texts(sums.TakeSnapshot().Placed)
	for name, want := range map[string]string{"cpu": "4", "memory": "2Gi", "ephemeral-storage": "2Gi"} {
		if placed[name] != want {
			t.Errorf("the pods of a node use %q of %s, want %s", placed[name], name, want)
		}
	}
	if resources := len(sums.names); resources > namesMax+3 {
		t.Errorf("%d resources count, want %d and the usual ones", resources, namesMax)
	}
}

// TestNamesOfResourcesFitIntoAReport has pods request made-up resources of long names, of which the hub takes 8 KiB, or
// else nothing that the cluster says.
func TestNamesOfResourcesFitIntoAReport(t *testing.T) {
	const hubTakes = 8 << 10
	names, sums := &ResourceNames{}, &ClusterSums{}
	for i := range 2 * namesMax / perPodMax {
		requests := list("cpu", "1", "memory", "1Gi", "ephemeral-storage", "1Gi")
		for j := range perPodMax {
			requests[corev1.ResourceName(fmt.Sprintf("%0317d", i*perPodMax+j))] = resource.MustParse("1")
		}
		sums.SetPod(names.PodRequestOf(pod(fmt.Sprint(i), "n", requests)))
	}
	bytes := 0
	for name := range sums.TakeSnapshot().Placed.ResourceQuantities() {
		bytes += len(name)
	}
	if bytes > hubTakes || bytes < hubTakes/2 {
		t.Errorf("the names have %d bytes, want at most %d", bytes, hubTakes)
	}
	for i := range 2 * namesMax / perPodMax {
		sums.DeletePod(types.UID(fmt.Sprint(i)))
	}
	if sums.nameBytes != 0 {
		t.Errorf("%d bytes of names count when all pods are gone", sums.nameBytes)
	}
}

// TestPodsOfLongNamesTakeLittle has an API server list pods with resources of long names, each pod with amounts of its own.
func TestPodsOfLongNamesTakeLittle(t *testing.T) {
	const pods, eachMax = 2000, 1 << 10
	for name, nameOf := range map[string]func(pod, resource int) string{
		"the same names":         func(_, resource int) string { return fmt.Sprintf("%0320d", resource) },
		"other names in each":    func(pod, resource int) string { return fmt.Sprintf("%0320d", pod*perPodMax+resource) },
		"names longer than that": func(_, resource int) string { return fmt.Sprintf("%0321d", resource) },
	} {
		t.Run(name, func(t *testing.T) {
			names, sums := &ResourceNames{}, &ClusterSums{}
			before := heap()
			var all []*PodRequest
			for i := range pods {
				amounts := corev1.ResourceList{}
				for j := range perPodMax {
					amounts[corev1.ResourceName(nameOf(i, j))] = *resource.NewQuantity(int64(i*perPodMax+j+1), resource.DecimalSI)
				}
				all = append(all, names.PodRequestOf(pod(fmt.Sprint(i), "n", amounts)))
			}
			listed := heldSince(before) / pods
			sums.ReplacePods(all)
			names.ForgetNames()
			runtime.KeepAlive(all) // and no longer
			summed := heldSince(before) / pods
			t.Logf("of a pod %d bytes are kept in a list, and %d in the sums", listed, summed)
			if listed > eachMax || summed > eachMax {
				t.Errorf("of a pod %d bytes are kept in a list, and %d in the sums, want at most %d", listed, summed, eachMax)
			}
			if got := len(sums.names); got > namesMax || len(sums.pods) != pods {
				t.Errorf("%d pods have %d resources", len(sums.pods), got)
			}
			sums.SetPod(names.PodRequestOf(pod("another", "n", list("cpu", "1"))))
			if cpu := texts(sums.TakeSnapshot().Placed)["cpu"]; cpu != "1" {
				t.Errorf("the pods use %q of cpu, want 1", cpu)
			}
			runtime.KeepAlive(sums)
		})
	}
}

// BenchmarkMemory reports what is kept of a pod: 10,000 pods on 100 nodes, of 500
// different workloads.
func BenchmarkMemory(b *testing.B) {
	const pods = 10_000
	for b.Loop() {
		s := &ClusterSums{}
		before := heap()
		for i := range pods {
			s.SetPod(requestOf(pod(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), fmt.Sprintf("node-%d", i%100),
				list("cpu", fmt.Sprintf("%dm", 1+i%500), "memory", "128Mi"))))
		}
		b.ReportMetric(float64(heap()-before)/pods, "B/pod")
		runtime.KeepAlive(s)
	}
}

// heldSince returns how much more memory is in use than before.
func heldSince(before uint64) int64 { return int64(heap() - before) }

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
