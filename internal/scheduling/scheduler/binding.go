// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/affinity"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// BindingSpec is a wish for clusters as a binding of the Karmada API has it.
// Other than with a RequestSpec, clusters that have the object already need not serve
// its kind, and their taints do not matter.
type BindingSpec struct {
	// Affinities select clusters: one of them has to. None select all.
	Affinities []affinity.Affinity
	// Tolerations say which taints do not matter. They hold for ever.
	Tolerations []Toleration
	// Topologies are those in which a cluster needs a place.
	Topologies []Topology
}

// Topology divides clusters into groups, by a field or by a label.
type Topology struct {
	// Field is FieldRegion, FieldZone or FieldProvider.
	Field string
	// Label is the key of a label, if there is no Field.
	Label string
}

// Fields of a Topology.
const (
	FieldRegion   = "region"
	FieldZone     = "zone"
	FieldProvider = "provider"
)

// String returns the topology as users read it, such as "region" or "label rack".
func (t Topology) String() string {
	if t.Field == "" {
		return "label " + t.Label
	}
	return t.Field
}

// GroupsOfCluster returns the groups that a cluster is in: a cluster in several zones is
// in several, and one whose place is not known is in none.
func (t Topology) GroupsOfCluster(c *view.Cluster) []string {
	var group string
	switch t.Field {
	case FieldZone:
		return c.Zones
	case FieldRegion:
		group = c.Region
	case FieldProvider:
		group = c.Provider
	default:
		group = c.Labels[t.Label]
	}
	if group == "" {
		return nil
	}
	return []string{group}
}

// CompileBinding checks the spec and prepares it. Every error is the user's, and
// is about the field that its path names. The request is for all clusters that
// may be chosen, of which the caller chooses.
func CompileBinding(spec BindingSpec) (ClusterRequest, field.ErrorList) {
	tolerations, problems := checkTolerations(spec.Tolerations, true)
	return ClusterRequest{
		filters: []clusterFilter{
			deletionFilter{}, taintFilter{tolerations: tolerations, lenient: true}, affinityFilter(spec.Affinities), topologyFilter(spec.Topologies),
		},
		scorers: []WeightedScorer{{Scorer: Locality{}, Weight: 1}},
		all:     true,
	}, problems
}

// ForBindingObject returns the request of a binding for an object of a kind, which is not
// placed on the clusters that it is being evicted from.
func (r ClusterRequest) ForBindingObject(apiVersion, kind string, evicted sets.Set[string]) ClusterRequest {
	r.filters = slices.Insert(slices.Clone(r.filters), 1, clusterFilter(servedFilter{apiVersion: apiVersion, kind: kind}))
	r.filters = append(r.filters, evictionFilter(evicted))
	return r
}

// servedFilter bars clusters that do not serve a kind.
type servedFilter struct{ apiVersion, kind string }

func (servedFilter) pluginName() string { return "APIEnablement" }

func (f servedFilter) admitsCluster(now *schedulingCycle, i int, c *view.Cluster) (bool, int) {
	if now.kept[i] {
		return true, 0
	}
	if now.asked != c.Served {
		now.asked, now.lacks = c.Served, c.Served.LacksKind(f.apiVersion, f.kind)
	}
	return !now.lacks, 0
}

func (servedFilter) refusalCode() verdictCode { return codeServed }

func (f servedFilter) explainRefusal(*view.Cluster, int) string {
	return fmt.Sprintf("it does not serve kind %s of %s", f.kind, f.apiVersion)
}

func (f servedFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}

// affinityFilter lets clusters through that one of the affinities selects.
type affinityFilter []affinity.Affinity

func (affinityFilter) pluginName() string { return "ClusterAffinity" }

func (f affinityFilter) admitsCluster(_ *schedulingCycle, _ int, c *view.Cluster) (bool, int) {
	for _, a := range f {
		if a.SelectsCluster(c) {
			return true, 0
		}
	}
	return len(f) == 0, 0
}

func (affinityFilter) refusalCode() verdictCode { return codeAffinity }

// explainRefusal quotes the first affinity: the others are for what it has no room for.
func (f affinityFilter) explainRefusal(c *view.Cluster, _ int) string { return f[0].ExplainMismatch(c) }

func (f affinityFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}

// topologyFilter bars clusters that have no place in a topology.
type topologyFilter []Topology

func (topologyFilter) pluginName() string { return "SpreadConstraint" }

func (f topologyFilter) admitsCluster(_ *schedulingCycle, _ int, c *view.Cluster) (bool, int) {
	for n, topology := range f {
		if len(topology.GroupsOfCluster(c)) == 0 {
			return false, n
		}
	}
	return true, 0
}

func (topologyFilter) refusalCode() verdictCode { return codeTopology }

func (f topologyFilter) explainRefusal(_ *view.Cluster, detail int) string {
	return fmt.Sprintf("it has no %s", f[detail])
}

func (f topologyFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}

// evictionFilter bars clusters that the object is being evicted from.
type evictionFilter sets.Set[string]

func (evictionFilter) pluginName() string { return "ClusterEviction" }

func (f evictionFilter) admitsCluster(_ *schedulingCycle, _ int, c *view.Cluster) (bool, int) {
	return !sets.Set[string](f).Has(c.Name), 0
}

func (evictionFilter) refusalCode() verdictCode { return codeEviction }

func (evictionFilter) explainRefusal(*view.Cluster, int) string {
	return "the object is being evicted from it"
}

func (f evictionFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}
