// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// newClusterCollectors returns the metrics of the clusters in the cache. Those of
// heartbeats begin when leading is closed: a replica that waits watches none, and
// must not begin to because somebody reads its metrics.
func newClusterCollectors(reader client.Reader, clk clock.PassiveClock, leading <-chan struct{}) []prometheus.Collector {
	list := func(ctx context.Context) ([]clusterv1.ManagedCluster, error) {
		clusters := &clusterv1.ManagedClusterList{}
		if err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing ManagedClusters: %w", err)
		}
		return clusters.Items, nil
	}
	clusters := metrics.NewComputedGauge(metrics.Definition{
		Name:   "capstan_managed_clusters",
		Help:   "Number of ManagedClusters by state: all, accepted, joined, available (True), unavailable (False), unknown, unreachable (unknown although accepted and joined), deleting, duplicate (the same cluster as another one, so that all minus duplicate is the number of clusters).",
		Labels: []string{"state"},
	}, func(ctx context.Context, set metrics.SetValue) error {
		clusters, err := list(ctx)
		if err != nil {
			return err
		}
		for state, count := range countClusters(clusters) {
			set(float64(count), state)
		}
		return nil
	})
	heartbeats := metrics.NewAgeHistogram(metrics.Definition{
		Name: "capstan_cluster_heartbeat_age_seconds",
		Help: "Age of the latest heartbeat of each accepted cluster, when the metric is read. Buckets are all clusters up to an age, not events: use them without rate().",
	}, []float64{30, 60, 120, 300, 600, 3600}, func(ctx context.Context, age func(float64)) error {
		select {
		case <-leading:
		default:
			return &cache.ErrCacheNotStarted{}
		}
		clusters, err := list(ctx)
		if err != nil {
			return err
		}
		leases := &coordinationv1.LeaseList{}
		if err := reader.List(ctx, leases, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing the leases of clusters: %w", err)
		}
		for _, renewed := range heartbeatTimes(clusters, leases.Items) {
			age(max(0, clk.Since(renewed.Time).Seconds()))
		}
		return nil
	})
	return []prometheus.Collector{clusters, heartbeats}
}

// heartbeatTimes returns when each accepted cluster was heard of last. One that never
// was counts from when it got its lease.
func heartbeatTimes(clusters []clusterv1.ManagedCluster, leases []coordinationv1.Lease) (renewed []metav1.Time) {
	accepted := make(map[string]bool, len(clusters))
	for i := range clusters {
		cluster := view.FromCluster(&clusters[i], nil)
		accepted[clusters[i].Name] = cluster.Admission == view.Admitted && !cluster.Deleting
	}
	for i := range leases {
		lease := &leases[i]
		if lease.Name != clusterv1.LeaseName || !accepted[lease.Namespace] {
			continue
		}
		if lease.Spec.RenewTime != nil {
			renewed = append(renewed, metav1.Time(*lease.Spec.RenewTime))
		} else {
			renewed = append(renewed, lease.CreationTimestamp)
		}
	}
	return renewed
}

func countClusters(clusters []clusterv1.ManagedCluster) map[string]int {
	counts := map[string]int{
		"all": len(clusters), "accepted": 0, "joined": 0, "duplicate": 0,
		"available": 0, "unavailable": 0, "unknown": 0, "unreachable": 0, "deleting": 0,
	}
	for i := range clusters {
		cluster := view.FromCluster(&clusters[i], nil)
		if cluster.Deleting {
			counts["deleting"]++
		}
		if cluster.Admission == view.Admitted {
			counts["accepted"]++
		}
		if cluster.Joined {
			counts["joined"]++
		}
		if meta.IsStatusConditionTrue(clusters[i].Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity) {
			counts["duplicate"]++
		}
		switch cluster.Available {
		case metav1.ConditionTrue:
			counts["available"]++
		case metav1.ConditionFalse:
			counts["unavailable"]++
		default:
			counts["unknown"]++
			if cluster.Admission == view.Admitted && cluster.Joined && !cluster.Deleting {
				counts["unreachable"]++
			}
		}
	}
	return counts
}
