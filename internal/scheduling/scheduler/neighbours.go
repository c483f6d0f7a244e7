// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// Neighbours are the clusters of other workloads that one is kept together with,
// or apart from.
type Neighbours struct {
	// Together says how many of the workloads to be together with are on a cluster,
	// one of which is enough. If there are none the workload is the first of its group,
	// and may be anywhere.
	Together map[string]int
	// Apart says how many of the workloads to be apart from are on a cluster.
	Apart map[string]int
}

// WithNeighbours returns the request of a binding for a workload that has neighbours.
func (r ClusterRequest) WithNeighbours(n Neighbours) ClusterRequest {
	filters := slices.Clone(r.filters)
	if len(n.Together) > 0 {
		filters = append(filters, togetherFilter(n.Together))
	}
	if len(n.Apart) > 0 {
		filters = append(filters, apartFilter(n.Apart))
	}
	r.filters = filters
	return r
}

// togetherFilter bars clusters without a workload of the affinity group.
type togetherFilter map[string]int

func (togetherFilter) pluginName() string { return "WorkloadAffinity" }

func (f togetherFilter) admitsCluster(now *schedulingCycle, i int, c *view.Cluster) (bool, int) {
	return now.kept[i] || f[c.Name] > 0, 0
}

func (togetherFilter) refusalCode() verdictCode { return codeTogether }

func (togetherFilter) explainRefusal(*view.Cluster, int) string {
	return "no workload of the affinity group is there"
}

func (f togetherFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}

// apartFilter bars clusters with a workload of the anti-affinity group.
type apartFilter map[string]int

func (apartFilter) pluginName() string { return "WorkloadAntiAffinity" }

func (f apartFilter) admitsCluster(now *schedulingCycle, i int, c *view.Cluster) (bool, int) {
	return now.kept[i] || f[c.Name] == 0, 0
}

func (apartFilter) refusalCode() verdictCode { return codeApart }

func (apartFilter) explainRefusal(*view.Cluster, int) string {
	return "another workload of the anti-affinity group is there"
}

func (f apartFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}
