// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import "github.com/prometheus/client_golang/prometheus"

// What became of a write to a Cluster.
const (
	resultCompleted = "Completed"
	resultDropped   = "Dropped"
	resultForbidden = "Forbidden"
)

// newWriteCounter returns the counter of writes to Clusters.
func newWriteCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_cluster_writes_total",
		Help: "Attempts to bring writes of Clusters to their ManagedClusters, by result (Completed; Dropped, as invalid; Forbidden, tried again).",
	}, []string{"result"})
}

// MetricCollector returns the metrics of the controller.
func (c *ClusterProjectionController) MetricCollector() prometheus.Collector { return c.writes }
