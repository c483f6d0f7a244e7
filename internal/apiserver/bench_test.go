// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
)

const (
	manyClusters = 10000
	manyWatchers = 100
	writers      = 16
)

// BenchmarkClusters compares lists and watches of Clusters with those of the
// ClusterConnections that they are served from: `make bench-clusters`.
func BenchmarkClusters(b *testing.B) {
	h := aggregated.StartHub(b, "../../config/crd")
	fillHub(h, b, manyClusters)
	clusters := v1alpha1.GroupVersion.WithResource("clusters")
	connections := fleetv1alpha1.GroupVersion.WithResource("clusterconnections")
	b.Run("List", func(b *testing.B) {
		var of, beside []time.Duration
		for b.Loop() {
			of, beside = append(of, timeList(h, b, clusters)), append(beside, timeList(h, b, connections))
		}
		report(b, of, beside)
		b.ReportMetric(heap(), "heap-MiB")
	})
	b.Run("Watch", func(b *testing.B) {
		var of, beside []time.Duration
		for b.Loop() {
			of, beside = append(of, timeWatch(h, b, clusters)...), append(beside, timeWatch(h, b, connections)...)
		}
		report(b, of, beside)
		b.ReportMetric(heap(), "heap-MiB")
	})
}

// report reports the medians, and how they compare.
func report(b *testing.B, of, beside []time.Duration) {
	b.Helper()
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(median(of), "p50-ms")
	b.ReportMetric(median(beside), "probe-p50-ms")
	b.ReportMetric(median(of)/median(beside), "ratio")
	b.ReportMetric(0, "ns/op")
}

// heap is what this process, which is the server and the client, holds.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// fill makes ClusterConnections as agents and the registration controller leave
// them.
func fillHub(h *aggregated.Hub, b *testing.B, count int) {
	b.Helper()
	names := make(chan int)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for i := range names {
				if err := fillOne(h, b.Context(), fmt.Sprintf("cluster-%05d", i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range count {
		names <- i
	}
	close(names)
	group.Wait()
}

func fillOne(h *aggregated.Hub, ctx context.Context, name string) error {
	mc, connection := &clusterv1.ManagedCluster{}, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	reported(mc, connection)
	status := connection.Status.DeepCopy()
	connection.Labels = map[string]string{"env": "prod", "region": "eu", "feature.example.com/gpu": "none"}
	connection.Cluster = &fleetv1alpha1.ClusterProjection{
		UID: types.UID(name), CreationTimestamp: metav1.Now().Rfc3339Copy(), Generation: 1, Accepted: true, Conditions: mc.Status.Conditions,
	}
	if err := h.Create(ctx, connection); err != nil {
		return err
	}
	capacity := fleetv1alpha1.ResourceList{"cpu": resource.MustParse("96"), "memory": resource.MustParse("384Gi"), "pods": resource.MustParse("330")}
	status.ResourceSummary = &fleetv1alpha1.ResourceSummary{Capacity: capacity, Allocatable: capacity, Allocated: capacity}
	for i := range 20 {
		status.APIEnablements = append(status.APIEnablements, fleetv1alpha1.APIEnablement{
			GroupVersion: fmt.Sprintf("group%d.example.com/v1", i),
			Resources:    []fleetv1alpha1.APIResource{{Name: "widgets", Kind: "Widget"}, {Name: "gadgets", Kind: "Gadget"}},
		})
	}
	connection.Status = *status
	return h.Status().Update(ctx, connection)
}

// timeList returns how long a client waits for the whole list, as bytes.
func timeList(h *aggregated.Hub, b *testing.B, of schema.GroupVersionResource) time.Duration {
	b.Helper()
	config := rest.CopyConfig(h.AdminConfig)
	config.GroupVersion = new(of.GroupVersion())
	config.APIPath, config.NegotiatedSerializer = "/apis", clientgoscheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if _, err := client.Get().Resource(of.Resource).Param("resourceVersion", "0").DoRaw(b.Context()); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// timeWatch returns how long after the answer to a write each of many watchers
// has its event.
func timeWatch(h *aggregated.Hub, b *testing.B, of schema.GroupVersionResource) []time.Duration {
	b.Helper()
	resources := dynamic.NewForConfigOrDie(h.AdminConfig)
	one := metav1.ListOptions{Limit: 1}
	list, err := resources.Resource(of).List(b.Context(), one)
	if err != nil {
		b.Fatal(err)
	}
	arrivals := make(chan time.Time, manyWatchers)
	for range manyWatchers {
		watcher, err := resources.Resource(of).Watch(b.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			b.Fatal(err)
		}
		defer watcher.Stop()
		go func() {
			<-watcher.ResultChan()
			arrivals <- time.Now()
		}()
	}
	start := time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"at":"%d"}}}`, start.UnixNano())
	_, err = resources.Resource(fleetv1alpha1.GroupVersion.WithResource("clusterconnections")).
		Patch(b.Context(), list.Items[0].GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for range manyWatchers {
		took = append(took, (<-arrivals).Sub(start))
	}
	return took
}
