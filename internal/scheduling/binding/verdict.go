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

// Verdict is what became of a cluster, and why.
type Verdict struct {
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

// Verdicts returns the verdict on each cluster of the fleet, in the order of
// names. There is none if the Placement has a mistake.
func (d Decision) Verdicts() iter.Seq[Verdict] {
	return func(yield func(Verdict) bool) {
		if d.round == nil {
			return
		}
		for i := range d.round.fleet.Len() {
			if v, _ := d.Verdict(d.round.fleet.At(i).Name); !yield(v) {
				return
			}
		}
	}
}

// Verdict returns the verdict on a cluster; false if the fleet has none of the name.
func (d Decision) Verdict(cluster string) (Verdict, bool) {
	if d.round == nil {
		return Verdict{}, false
	}
	passed, found := d.round.result.Verdict(cluster)
	if !found {
		return Verdict{}, false
	}
	v := Verdict{Cluster: cluster, Reason: passed.Reason, RefusedBy: passed.RefusedBy, Score: passed.Score, Room: -1}
	if !passed.Chosen {
		return v, true
	}
	i, _ := d.round.fleet.Find(cluster)
	if room, known := d.round.room(i); known {
		v.Room = room
	}
	at, chosen := slices.BinarySearchFunc(d.Clusters, cluster, func(t workv1alpha2.TargetCluster, name string) int { return strings.Compare(t.Name, name) })
	_, selected := slices.BinarySearch(d.round.selected, i)
	switch {
	case !d.Chosen():
		v.Reason = d.Message
	case chosen:
		v.Chosen = true
		v.Replicas = d.Clusters[at].Replicas
	case d.round.in.whole() && d.round.strategy != division.Duplicated && d.round.considers(i):
		v.RefusedBy, v.Reason = refusedByDivision, whole{a: d.round}.noSet(i, v.Room)
	case d.round.kept:
		v.RefusedBy = refusedByDivision
		v.Reason = "all replicas are elsewhere, and stay there until the object or its policy changes"
	case !selected && !d.round.considers(i):
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

// room returns how much room a cluster has, if that is known and matters.
func (a *attempt) room(i int) (int32, bool) {
	cluster := a.fleet.At(i)
	switch {
	case !a.fills():
		return 0, false
	case a.in.whole():
		return whole{a: a}.sets(cluster)
	default:
		return a.request.Replicas(cluster.Room, a.in.Assumed[cluster.Name])
	}
}

// Checks returns what each filter says about a cluster, also those after the
// first that refused it.
func (d Decision) Checks(cluster string) []scheduler.Check {
	if d.round == nil {
		return nil
	}
	return d.round.result.Checks(cluster)
}

// considers tells whether a cluster could be selected.
func (a *attempt) considers(i int) bool {
	_, found := slices.BinarySearch(a.eligible, i)
	return found
}

// noShare says why a cluster gets no replicas although it may have some.
func (a *attempt) noShare(i int, room int32) string {
	switch {
	case a.strategy == division.StaticWeight && len(a.weights) > 0 && a.weightOf(a.fleet.At(i)) == 0:
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
