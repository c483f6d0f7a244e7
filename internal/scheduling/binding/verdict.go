// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/scheduling/division"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// What refused a cluster that the filters let through.
const (
	refusedBySpread   = "spreadConstraints"
	refusedByDivision = "replicaScheduling"
	refusedByTier     = "overflowAffinities"
)

// ClusterVerdict is what became of a cluster, and why.
type ClusterVerdict struct {
	Cluster string
	Chosen  bool
	// Replicas is how many it gets, if it is chosen.
	Replicas int32
	// Reason is for people. It is the same for all clusters that it is true of.
	Reason string
	// RefusedBy is what refused it: deletion, apiEnablements, taints,
	// clusterAffinity, gracefulEvictionTasks, workloadAffinity, overflowAffinities,
	// spreadConstraints or replicaScheduling. It is "" for those that are chosen, and if nothing could be
	// decided for those that may be chosen.
	RefusedBy string
	// Score is from 0 to 100: who has the object already comes first.
	Score int64
	// Room is how many further replicas it has room for, or how many times all parts
	// of the object, with what it has of them; -1 if that is not known, or does not
	// matter.
	Room int32
}

// ClusterVerdicts returns the verdict on each cluster of the fleet, in the order of
// names. There is none if the Placement has a mistake.
func (d SchedulingDecision) ClusterVerdicts() iter.Seq[ClusterVerdict] {
	return func(yield func(ClusterVerdict) bool) {
		if d.round == nil {
			return
		}
		for i := range d.round.fleet.Len() {
			if v, _ := d.VerdictForCluster(d.round.fleet.ClusterAt(i).Name); !yield(v) {
				return
			}
		}
	}
}

// VerdictForCluster returns the verdict on a cluster; false if the fleet has none of the name.
func (d SchedulingDecision) VerdictForCluster(cluster string) (ClusterVerdict, bool) {
	if d.round == nil {
		return ClusterVerdict{}, false
	}
	passed, found := d.round.result.VerdictForCluster(cluster)
	if !found {
		return ClusterVerdict{}, false
	}
	v := ClusterVerdict{Cluster: cluster, Reason: passed.Reason, RefusedBy: passed.RefusedBy, Score: passed.Score, Room: -1}
	if !passed.Chosen {
		return v, true
	}
	i, _ := d.round.fleet.FindCluster(cluster)
	if room, known := d.round.clusterRoom(i); known {
		v.Room = room
	}
	at, chosen := slices.BinarySearchFunc(d.Clusters, cluster, func(t workv1alpha2.TargetCluster, name string) int { return strings.Compare(t.Name, name) })
	_, selected := slices.BinarySearch(d.round.selected, i)
	switch {
	case !d.ClustersChosen():
		v.Reason = d.Message
	case chosen:
		v.Chosen = true
		v.Replicas = d.Clusters[at].Replicas
	case d.round.in.placedAsWhole() && d.round.strategy != division.Duplicated && d.round.isEligible(i):
		v.RefusedBy, v.Reason = refusedByDivision, wholePlacement{a: d.round}.noSet(i, v.Room)
	case d.round.kept:
		v.RefusedBy = refusedByDivision
		v.Reason = "all replicas are elsewhere, and stay there until the object or its policy changes"
	case !selected && !d.round.isEligible(i):
		v.RefusedBy = refusedByTier
		v.Reason = "it is for replicas that others have no room for"
	case !selected:
		v.RefusedBy = refusedBySpread
		v.Reason = "others rank higher, and the spread constraints allow no more clusters"
	default:
		v.RefusedBy, v.Reason = refusedByDivision, d.round.noShare(i, v.Room)
	}
	return v, true
}

// clusterRoom returns how much room a cluster has, if that is known and matters.
func (a *attempt) clusterRoom(i int) (int32, bool) {
	cluster := a.fleet.ClusterAt(i)
	switch {
	case !a.dependsOnRoom():
		return 0, false
	case a.in.placedAsWhole():
		return wholePlacement{a: a}.fittingSets(cluster)
	default:
		return a.in.counted.request.FittingReplicas(cluster.Room, a.in.Assumed[cluster.Name])
	}
}

// FilterChecks returns what each filter says about a cluster, also those after the
// first that refused it.
func (d SchedulingDecision) FilterChecks(cluster string) []scheduler.FilterCheck {
	if d.round == nil {
		return nil
	}
	return d.round.result.FilterChecks(cluster)
}

// isEligible reports whether a cluster could be selected.
func (a *attempt) isEligible(i int) bool {
	_, found := slices.BinarySearch(a.eligible, i)
	return found
}

// noShare says why a cluster gets no replicas although it may have some.
func (a *attempt) noShare(i int, room int32) string {
	switch {
	case a.strategy == division.StaticWeight && len(a.weights) > 0 && a.weightOf(a.fleet.ClusterAt(i)) == 0:
		return "no rule of staticWeightList is for it"
	case a.strategy == division.StaticWeight:
		return fmt.Sprintf("its weight is too small for one of %d replicas", a.in.Replicas)
	case room == 0:
		return "it has no room for a replica"
	case a.strategy == division.Aggregated:
		return fmt.Sprintf("fewer clusters have room for all %d replicas", a.in.Replicas)
	default:
		return fmt.Sprintf("its share of %d replicas is less than one", a.in.Replicas)
	}
}
