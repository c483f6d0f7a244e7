// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/fleet/view"
)

// scrapeMax bounds the time to count the clusters, in memory, for one scrape.
const scrapeMax = 5 * time.Second

// collector counts the clusters when somebody asks, from the cache.
type collector struct {
	// list returns the clusters; Prometheus hands in no context.
	list     func() ([]clusterv1.ManagedCluster, error)
	clusters *prometheus.Desc
}

func newCollector(ctx context.Context, reader client.Reader) *collector {
	list := func() ([]clusterv1.ManagedCluster, error) {
		ctx, cancel := context.WithTimeout(ctx, scrapeMax)
		defer cancel()
		clusters := &clusterv1.ManagedClusterList{}
		err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy)
		return clusters.Items, err
	}
	return &collector{list: list, clusters: prometheus.NewDesc(
		"capstan_managed_clusters",
		"Number of ManagedClusters by state: all, accepted, joined, available (True), unavailable (False), unknown, deleting, duplicate (the same cluster as another one, so that all minus duplicate is the number of clusters).",
		[]string{"state"}, nil,
	)}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.clusters }

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	clusters, err := c.list()
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(c.clusters, fmt.Errorf("listing ManagedClusters: %w", err))
		return
	}
	for state, count := range count(clusters) {
		metrics <- prometheus.MustNewConstMetric(c.clusters, prometheus.GaugeValue, float64(count), state)
	}
}

func count(clusters []clusterv1.ManagedCluster) map[string]int {
	counts := map[string]int{"all": len(clusters), "accepted": 0, "joined": 0, "duplicate": 0, "available": 0, "unavailable": 0, "unknown": 0, "deleting": 0}
	for i := range clusters {
		cluster := view.Of(&clusters[i], nil)
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
		}
	}
	return counts
}
