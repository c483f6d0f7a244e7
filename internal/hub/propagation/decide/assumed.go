// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// assumedMax is for how long replicas are assumed to take room that their cluster
// does not report as taken yet.
const assumedMax = time.Minute

// assumptions are what was assigned to clusters lately, so that decisions which
// are made at about the same time do not take the same room. It is not safe for
// concurrent use.
type assumptions struct {
	objects map[types.UID]assumption
	uses    *usedAmounts // the sum
	// order has the objects by when something was last assigned to them, each as often
	// as that has been.
	order []assignment
}

// assumption is about one object.
type assumption struct {
	takes binding.Footprint
	// base is what its clusters had when it was made, or have reported since, and decided what they
	// have now.
	base, decided map[string]workv1alpha2.TargetCluster
	// arriving is what each cluster got lately.
	arriving map[string]arrivingShare
}

// arrivingShare is what a cluster got lately, and may not report yet. Who decides again for the same, or for a little
// more, does not take the room of all of it for longer: the cluster reports what runs.
type arrivingShare struct {
	// since is when it got the share, and grown when it last got more than that; zero if it did not.
	since, grown time.Time
	// share is what it had before it grew, or when something was decided without it.
	share workv1alpha2.TargetCluster
}

type assignment struct {
	uid types.UID
	at  time.Time
}

func newAssumptions() *assumptions {
	return &assumptions{objects: map[types.UID]assumption{}, uses: newUsedAmounts()}
}

// dividesByRoom reports whether a placement divides replicas by the room that clusters
// have.
func dividesByRoom(placement *policyv1alpha1.Placement) bool {
	if placement == nil || placement.ReplicaScheduling == nil {
		return false
	}
	s := placement.ReplicaScheduling
	return s.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDuplicated &&
		(s.ReplicaDivisionPreference == policyv1alpha1.ReplicaDivisionPreferenceAggregated ||
			s.WeightPreference != nil && s.WeightPreference.DynamicWeight != "")
}

// decideWithAssumptions has a decision made for an object with what is assumed of each cluster,
// and assumes what is decided, if anything is. Of the object itself counts what was decided last,
// as far as its binding says so: it may not have been written. More than that the binding may say,
// whoever writes it, and all others wait meanwhile: it counts for nothing.
func (a *assumptions) decideWithAssumptions(in placedInput, now time.Time, decide func(uses map[string]view.Amounts) (clusters []workv1alpha2.TargetCluster, ok bool)) {
	a.expireAssumptions(now)
	before, known := a.objects[in.uid]
	if known {
		a.uses.removeUses(before)
	} else {
		before.base = in.says
	}
	own := assumption{takes: in.takes, base: before.base, decided: before.writtenTargets(in.says)}
	a.uses.addUses(own)
	clusters, ok := decide(a.uses.byCluster)
	a.uses.removeUses(own)
	if !ok {
		a.uses.addUses(before)
		return
	}
	after := assumption{takes: in.takes, base: before.runningReplicas(in.says), decided: targetsByName(clusters)}
	after.arriving = before.arrivingShares(after.decided, now)
	a.uses.addUses(after)
	a.objects[in.uid] = after
	a.order = append(a.order, assignment{in.uid, now})
}

// placedInput is an object that is to be placed, as far as assumptions are about it.
type placedInput struct {
	uid   types.UID
	takes binding.Footprint
	// says has what its binding says of clusters.
	says map[string]workv1alpha2.TargetCluster
}

// placedInputOf returns an object as far as assumptions are about it. Of the clusters that its binding
// names, those count which the fleet has.
func placedInputOf(fleet view.Fleet, in binding.PlacementInput) placedInput {
	says := targetsByName(in.Previous)
	maps.DeleteFunc(says, func(name string, _ workv1alpha2.TargetCluster) bool {
		_, found := fleet.FindCluster(name)
		return !found
	})
	return placedInput{uid: in.UID, takes: in.Footprint(), says: says}
}

// writtenTargets returns what was decided last, as far as the binding says so.
func (one assumption) writtenTargets(says map[string]workv1alpha2.TargetCluster) map[string]workv1alpha2.TargetCluster {
	written := make(map[string]workv1alpha2.TargetCluster, len(one.decided))
	for name, target := range one.decided {
		if said, is := says[name]; is {
			written[name] = lesserTarget(target, said)
		}
	}
	return written
}

// lesserTarget returns what a cluster has of each part by both of two targets.
func lesserTarget(one, other workv1alpha2.TargetCluster) workv1alpha2.TargetCluster {
	one.Replicas = min(one.Replicas, other.Replicas)
	if len(one.Components) == 0 {
		return one
	}
	parts := replicasByPart(other)
	one.Components = slices.Clone(one.Components)
	for i := range one.Components {
		part := &one.Components[i]
		part.Replicas = min(part.Replicas, parts[part.Name])
	}
	return one
}

// arrivingShares returns what clusters got lately when something is decided: what is more than they had arrives from now
// on. A cluster that is left out, perhaps for a moment, goes on reporting what it got.
func (one assumption) arrivingShares(decided map[string]workv1alpha2.TargetCluster, now time.Time) map[string]arrivingShare {
	arriving := make(map[string]arrivingShare, len(decided))
	for name, share := range one.arriving {
		if had, is := one.decided[name]; is && share.grown.IsZero() {
			share.share = had
		}
		arriving[name] = share
	}
	for name, target := range decided {
		share, is := arriving[name]
		if !is {
			arriving[name] = arrivingShare{since: now}
			continue
		}
		had, is := one.decided[name]
		if !is {
			had = share.share
		}
		if hasMore(target, had) {
			share.grown = now
			arriving[name] = share
		}
	}
	return arriving
}

// hasMore reports whether a cluster has more replicas, of any part, than it had.
func hasMore(is, was workv1alpha2.TargetCluster) bool {
	parts := replicasByPart(was)
	return is.Replicas > was.Replicas || slices.ContainsFunc(is.Components, func(part workv1alpha2.TargetComponent) bool { return part.Replicas > parts[part.Name] })
}

// runningReplicas returns what the clusters run that was not assigned to them lately, now that
// the binding says what they have: what is more than was decided here is somebody
// else's word.
func (one assumption) runningReplicas(says map[string]workv1alpha2.TargetCluster) map[string]workv1alpha2.TargetCluster {
	base := maps.Clone(one.base)
	for name, is := range says {
		was := one.base[name]
		decided := one.decided[name]
		was.Replicas += excessOver(is.Replicas, was.Replicas, decided.Replicas)
		parts := replicasByPart(was)
		chosen := replicasByPart(decided)
		for _, part := range is.Components {
			parts[part.Name] += excessOver(part.Replicas, parts[part.Name], chosen[part.Name])
		}
		was.Components = nil
		for part, replicas := range parts {
			was.Components = append(was.Components, workv1alpha2.TargetComponent{Name: part, Replicas: replicas})
		}
		base[name] = was
	}
	return base
}

func replicasByPart(target workv1alpha2.TargetCluster) map[string]int32 {
	by := make(map[string]int32, len(target.Components))
	for _, part := range target.Components {
		by[part.Name] = part.Replicas
	}
	return by
}

// excessOver returns how much more one number is than the greater of two others, and than 0.
func excessOver(is, a, b int32) int32 { return max(0, is) - min(max(0, is), max(0, a, b)) }

// expireAssumptions drops what clusters have reported by now.
func (a *assumptions) expireAssumptions(now time.Time) {
	for len(a.order) > 0 && now.Sub(a.order[0].at) >= assumedMax {
		uid := a.order[0].uid
		a.order = a.order[1:]
		one, is := a.objects[uid]
		if !is {
			continue
		}
		a.uses.removeUses(one)
		if one = one.withReported(now); len(one.arriving) == 0 {
			delete(a.objects, uid)
			continue
		}
		a.uses.addUses(one)
		a.objects[uid] = one
	}
}

// withReported returns the assumption without what was assigned so long ago that clusters have reported it.
func (one assumption) withReported(now time.Time) assumption {
	base := maps.Clone(one.base)
	arriving := maps.Clone(one.arriving)
	for name, share := range one.arriving {
		if now.Sub(share.since) < assumedMax {
			continue
		}
		delete(arriving, name)
		decided, is := one.decided[name]
		switch {
		case !is:
			base[name] = share.share
		case share.grown.IsZero() || now.Sub(share.grown) >= assumedMax:
			base[name] = decided
		default:
			base[name] = lesserTarget(share.share, decided)
			arriving[name] = arrivingShare{since: share.grown}
		}
	}
	one.base = base
	one.arriving = arriving
	return one
}

func targetsByName(clusters []workv1alpha2.TargetCluster) map[string]workv1alpha2.TargetCluster {
	by := make(map[string]workv1alpha2.TargetCluster, len(clusters))
	for _, target := range clusters {
		by[target.Name] = target
	}
	return by
}
