// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/capacity"
	"github.com/capstan-io/capstan/internal/scheduling/division"
	"github.com/capstan-io/capstan/internal/scheduling/selection"
)

// partsMax is how many parts a message lists.
const partsMax = 8

// whole tells whether the object has parts that are placed together: a cluster gets
// all replicas of all of them, or none.
func (in Input) whole() bool {
	return len(in.Components) > 1 || len(in.Components) == 1 && !in.Workload
}

// complete tells whether one cluster has the object as a whole, as it is wanted.
func (in Input) complete() bool {
	return len(in.Previous) == 1 && slices.Equal(in.Previous[0].Components, in.parts())
}

// parts returns what a cluster that has the object as a whole has of it.
func (in Input) parts() []workv1alpha2.TargetComponent {
	parts := make([]workv1alpha2.TargetComponent, 0, len(in.Components))
	for _, part := range in.Components {
		parts = append(parts, workv1alpha2.TargetComponent{Name: part.Name, Replicas: part.Replicas})
	}
	return parts
}

// set returns the object as it is counted.
func (in Input) set() capacity.Set {
	all := make(capacity.Set, 0, len(in.Components))
	for _, part := range in.Components {
		all = append(all, capacity.Part{Replicas: part.Replicas, Request: capacity.RequestOf(requested(part))})
	}
	return all
}

// lacks returns what of the object, as it is counted, its clusters lack, by cluster.
func (in Input) lacks(all capacity.Set) map[string]capacity.Set {
	lacking := make(map[string]capacity.Set, len(in.Previous))
	for _, target := range in.Previous {
		if _, twice := lacking[target.Name]; twice {
			continue
		}
		has := replicasOf(target.Components)
		lacks := slices.Clone(all)
		for n, part := range in.Components {
			lacks[n].Replicas -= has[part.Name]
		}
		lacking[target.Name] = lacks
	}
	return lacking
}

func requested(part workv1alpha2.Component) corev1.ResourceList {
	if part.ReplicaRequirements == nil {
		return nil
	}
	return part.ReplicaRequirements.ResourceRequest
}

// replicasOf returns how many replicas of each part a cluster has.
func replicasOf(parts []workv1alpha2.TargetComponent) map[string]int32 {
	replicas := make(map[string]int32, len(parts))
	for _, part := range parts {
		replicas[part.Name] = part.Replicas
	}
	return replicas
}

// named returns the parts for people, such as "jobmanager 1, taskmanager 2".
func (in Input) named() string {
	var names []string
	for n, part := range in.Components {
		if n == partsMax {
			names = append(names, fmt.Sprintf("and %d more", len(in.Components)-n))
			break
		}
		names = append(names, fmt.Sprintf("%s %d", part.Name, part.Replicas))
	}
	return strings.Join(names, ", ")
}

// noRoomForAllError says that no cluster has room for an object as a whole.
type noRoomForAllError struct{ parts string }

func (e *noRoomForAllError) Error() string {
	return fmt.Sprintf("no cluster that may be chosen has room for all parts of the object together (%s)", e.parts)
}

// tooManyError says that an object would have to be taken apart.
type tooManyError struct{ clusters int }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("the parts of the object are placed together and not divided among clusters, and spreadConstraints want at least %d; "+
		"lower minGroups to 1, or set replicaSchedulingType Duplicated", e.clusters)
}

// whole places an object as a whole.
type whole struct{ a *attempt }

// assign selects the clusters that get the object as a whole: one of them, or
// all if each is to have a copy. One that has it keeps it while it may be chosen and
// has room for what the object has become.
func (w whole) assign() ([]workv1alpha2.TargetCluster, error) {
	candidates, shares := w.a.candidates()
	wish := selection.Wish{Clusters: w.a.clusters, Groups: w.a.spread, Tries: len(w.a.groups)}
	if w.a.strategy != division.Duplicated {
		if w.a.clusters.Min > 1 {
			return nil, &tooManyError{clusters: w.a.clusters.Min}
		}
		if w.stays(candidates) {
			w.a.kept = true
			return w.on(w.a.in.Previous[0].Name), nil
		}
		if candidates = w.able(candidates, shares); len(candidates) == 0 {
			return nil, &noRoomForAllError{parts: w.a.in.named()}
		}
		wish.Clusters.Max = 1
		wish.Strict = true
	}
	chosen, err := wish.Select(candidates)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(chosen))
	for _, n := range chosen {
		names = append(names, candidates[n].Name)
		if at, found := w.a.fleet.Find(candidates[n].Name); found {
			w.a.selected = append(w.a.selected, at)
		}
	}
	return w.on(names...), nil
}

// stays tells whether the cluster that has the object may keep it: it has it as it
// is wanted, and nobody asked to choose anew.
func (w whole) stays(candidates []selection.Candidate) bool {
	if w.a.in.Fresh || !w.a.in.complete() {
		return false
	}
	n := slices.IndexFunc(candidates, func(c selection.Candidate) bool { return c.Name == w.a.in.Previous[0].Name })
	wish := selection.Wish{Clusters: w.a.clusters, Groups: w.a.spread}
	return n >= 0 && wish.Allows(candidates[n:n+1]) && (!w.a.fills() || candidates[n].Room > 0)
}

// able returns the clusters that the object may be divided to: those that have room
// for it, or of which the weight is the greatest. If it is chosen anew the one that
// has it is not preferred.
func (w whole) able(candidates []selection.Candidate, shares []division.Candidate) []selection.Candidate {
	var heaviest int64
	for _, share := range shares {
		heaviest = max(heaviest, share.Weight)
	}
	var able []selection.Candidate
	for n, candidate := range candidates {
		if w.a.fills() && candidate.Room == 0 || !w.a.fills() && shares[n].Weight < heaviest {
			continue
		}
		if w.a.in.Fresh {
			candidate.Score = 0
		}
		able = append(able, candidate)
	}
	return able
}

func (w whole) on(clusters ...string) []workv1alpha2.TargetCluster {
	targets := make([]workv1alpha2.TargetCluster, 0, len(clusters))
	for _, cluster := range clusters {
		targets = append(targets, workv1alpha2.TargetCluster{Name: cluster, Components: w.a.in.parts()})
	}
	return targets
}

// sets returns how many times a cluster has room for the object, with the one that
// it has, if it has room for what that one lacks.
func (w whole) sets(cluster *view.Cluster) (sets int32, known bool) {
	used := w.a.in.Assumed[cluster.Name]
	lacks, has := w.a.lacking[cluster.Name]
	if sets, known = w.a.all.Sets(cluster.Room, used); !known || !has {
		return sets, known
	}
	if more, _ := lacks.Sets(cluster.Room, used); more > 0 && sets < math.MaxInt32 {
		sets++
	}
	return sets, true
}

// noSet says why a cluster does not get the object.
func (w whole) noSet(i int, room int32) string {
	switch {
	case w.a.fills() && room == 0:
		return fmt.Sprintf("it has no room for all parts together (%s)", w.a.in.named())
	case w.a.strategy == division.StaticWeight && len(w.a.weights) > 0 && w.a.weightOf(w.a.fleet.At(i)) == 0:
		return "no rule of staticWeightList is for it"
	default:
		return "another cluster has all parts: they are placed together"
	}
}

// Footprint is what replicas of an object take of a cluster.
type Footprint struct {
	requirements *workv1alpha2.ReplicaRequirements
	components   []workv1alpha2.Component
}

// Footprint returns what the replicas of the object take.
func (in Input) Footprint() Footprint {
	return Footprint{requirements: in.Requirements, components: in.Components}
}

// More returns what an object takes more of a cluster than it did, to be assumed
// until the cluster reports it; nil if that is nothing. Less than no replicas are none:
// a binding can say any number.
func (f Footprint) More(now, before workv1alpha2.TargetCluster) view.Amounts {
	taken := view.Amounts{}
	add := func(now, before int32, list corev1.ResourceList) {
		replicas := int64(max(0, now)) - int64(max(0, before))
		if replicas <= 0 {
			return
		}
		one := view.AmountsOf(list)
		one[corev1.ResourcePods] = 1000
		for name, amount := range one {
			taken[name] += amount * replicas
		}
	}
	if f.requirements != nil {
		add(now.Replicas, before.Replicas, f.requirements.ResourceRequest)
	} else {
		add(now.Replicas, before.Replicas, nil)
	}
	is := replicasOf(now.Components)
	was := replicasOf(before.Components)
	for _, part := range f.components {
		add(is[part.Name], was[part.Name], requested(part))
	}
	return taken
}
