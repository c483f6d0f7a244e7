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

// placedAsWhole reports whether the object has parts that are placed together: a cluster gets
// all replicas of all of them, or none.
func (in PlacementInput) placedAsWhole() bool {
	return len(in.Components) > 1 || len(in.Components) == 1 && !in.Workload
}

// isComplete reports whether one cluster has the object as a whole, as it is wanted.
func (in PlacementInput) isComplete() bool {
	return len(in.Previous) == 1 && slices.Equal(in.Previous[0].Components, in.targetParts())
}

// targetParts returns what a cluster that has the object as a whole has of it.
func (in PlacementInput) targetParts() []workv1alpha2.TargetComponent {
	parts := make([]workv1alpha2.TargetComponent, 0, len(in.Components))
	for _, part := range in.Components {
		parts = append(parts, workv1alpha2.TargetComponent{Name: part.Name, Replicas: part.Replicas})
	}
	return parts
}

// capacitySet returns the object as it is counted.
func (in PlacementInput) capacitySet() capacity.ComponentSet {
	all := make(capacity.ComponentSet, 0, len(in.Components))
	for _, part := range in.Components {
		all = append(all, capacity.SetComponent{Replicas: part.Replicas, Request: capacity.RequestOf(requestedResources(part))})
	}
	return all
}

// lackingSet returns what of the object, as it is counted, a cluster lacks that has some of it.
func (in PlacementInput) lackingSet(all capacity.ComponentSet, target workv1alpha2.TargetCluster) capacity.ComponentSet {
	has := replicasOf(target.Components)
	lacks := slices.Clone(all)
	for n, part := range in.Components {
		lacks[n].Replicas = max(0, part.Replicas) - max(0, has[part.Name])
	}
	return lacks
}

func requestedResources(part workv1alpha2.Component) corev1.ResourceList {
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

// describeParts returns the parts for people, such as "jobmanager 1, taskmanager 2".
func (in PlacementInput) describeParts() string {
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

// wholePlacement places an object as a whole.
type wholePlacement struct{ a *attempt }

// assignWhole selects the clusters that get the object as a whole: one of them, or
// all if each is to have a copy. One that has it keeps it while it may be chosen and
// has room for what the object has become.
func (w wholePlacement) assignWhole() ([]workv1alpha2.TargetCluster, error) {
	candidates, shares := w.a.buildCandidates()
	wish := selection.ClusterWish{Clusters: w.a.clusters, Groups: w.a.spread, Tries: len(w.a.groups)}
	if w.a.strategy != division.Duplicated {
		if w.a.clusters.Min > 1 {
			return nil, &tooManyError{clusters: w.a.clusters.Min}
		}
		if w.mayStay(candidates) {
			w.a.kept = true
			return w.targetsOn(w.a.in.Previous[0].Name), nil
		}
		if candidates = w.ableCandidates(candidates, shares); len(candidates) == 0 {
			return nil, &noRoomForAllError{parts: w.a.in.describeParts()}
		}
		wish.Clusters.Max = 1
		wish.Strict = true
	}
	chosen, err := wish.SelectClusters(candidates)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(chosen))
	for _, n := range chosen {
		names = append(names, candidates[n].Name)
		if at, found := w.a.fleet.FindCluster(candidates[n].Name); found {
			w.a.selected = append(w.a.selected, at)
		}
	}
	return w.targetsOn(names...), nil
}

// mayStay reports whether the cluster that has the object may keep it: it has it as it
// is wanted, and nobody asked to choose anew.
func (w wholePlacement) mayStay(candidates []selection.ClusterCandidate) bool {
	if w.a.in.Fresh || !w.a.in.isComplete() {
		return false
	}
	n := slices.IndexFunc(candidates, func(c selection.ClusterCandidate) bool { return c.Name == w.a.in.Previous[0].Name })
	wish := selection.ClusterWish{Clusters: w.a.clusters, Groups: w.a.spread}
	return n >= 0 && wish.AllowsChosen(candidates[n:n+1]) && (!w.a.dependsOnRoom() || candidates[n].Room > 0)
}

// ableCandidates returns the clusters that the object may be divided to: those that have room
// for it, or of which the weight is the greatest. If it is chosen anew the one that
// has it is not preferred.
func (w wholePlacement) ableCandidates(candidates []selection.ClusterCandidate, shares []division.ReplicaCandidate) []selection.ClusterCandidate {
	var heaviest int64
	for _, share := range shares {
		heaviest = max(heaviest, share.Weight)
	}
	var able []selection.ClusterCandidate
	for n, candidate := range candidates {
		if w.a.dependsOnRoom() && candidate.Room == 0 || !w.a.dependsOnRoom() && shares[n].Weight < heaviest {
			continue
		}
		if w.a.in.Fresh {
			candidate.Score = 0
		}
		able = append(able, candidate)
	}
	return able
}

func (w wholePlacement) targetsOn(clusters ...string) []workv1alpha2.TargetCluster {
	targets := make([]workv1alpha2.TargetCluster, 0, len(clusters))
	for _, cluster := range clusters {
		targets = append(targets, workv1alpha2.TargetCluster{Name: cluster, Components: w.a.in.targetParts()})
	}
	return targets
}

// fittingSets returns how many times a cluster has room for the object, with the one that
// it has, if it has room for what that one lacks.
func (w wholePlacement) fittingSets(cluster *view.Cluster) (sets int32, known bool) {
	used := w.a.in.Assumed[cluster.Name]
	lacks, has := w.a.in.counted.lacking[cluster.Name]
	if sets, known = w.a.in.counted.all[cluster.Name].FittingSets(cluster.Room, used); !known || !has {
		return sets, known
	}
	if more, _ := lacks.FittingSets(cluster.Room, used); more > 0 && sets < math.MaxInt32 {
		sets++
	}
	return sets, true
}

// noSet says why a cluster does not get the object.
func (w wholePlacement) noSet(i int, room int32) string {
	switch {
	case w.a.dependsOnRoom() && room == 0:
		return fmt.Sprintf("it has no room for all parts together (%s)", w.a.in.describeParts())
	case w.a.strategy == division.StaticWeight && len(w.a.weights) > 0 && w.a.weightOf(w.a.fleet.ClusterAt(i)) == 0:
		return "no rule of staticWeightList is for it"
	default:
		return "another cluster has all parts: they are placed together"
	}
}
