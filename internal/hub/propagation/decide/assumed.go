// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
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
	// uses is the sum by cluster.
	uses map[string]view.Amounts
	// order has the objects by when something was last assigned to them, each as often
	// as that has been.
	order []assignment
}

// assumption is about one object.
type assumption struct {
	since time.Time
	takes binding.Footprint
	// base is what its clusters had when it was made, and decided what they have now.
	base, decided map[string]workv1alpha2.TargetCluster
}

type assignment struct {
	uid types.UID
	at  time.Time
}

func newAssumptions() *assumptions {
	return &assumptions{objects: map[types.UID]assumption{}, uses: map[string]view.Amounts{}}
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
// and assumes what is decided, if anything is. Of the object itself counts what its binding
// says it has: what was decided last may not have been written. For others that counts
// for nothing, as whoever writes a binding can say anything there.
func (a *assumptions) decideWithAssumptions(in binding.PlacementInput, now time.Time, decide func(uses map[string]view.Amounts) (clusters []workv1alpha2.TargetCluster, ok bool)) {
	a.expireAssumptions(now)
	says := targetsByName(in.Previous)
	before, known := a.objects[in.UID]
	if known {
		a.countUses(before, -1)
	} else {
		before.base = says
	}
	own := assumption{takes: in.Footprint(), base: before.base, decided: says}
	a.countUses(own, 1)
	clusters, ok := decide(a.uses)
	a.countUses(own, -1)
	if !ok {
		a.countUses(before, 1)
		return
	}
	after := assumption{since: now, takes: own.takes, base: before.runningReplicas(says), decided: targetsByName(clusters)}
	a.countUses(after, 1)
	a.objects[in.UID] = after
	a.order = append(a.order, assignment{in.UID, now})
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
		if one, is := a.objects[uid]; is && now.Sub(one.since) >= assumedMax {
			a.countUses(one, -1)
			delete(a.objects, uid)
		}
	}
}

// countUses adds to the sum what an object takes more than it did, so many times.
func (a *assumptions) countUses(one assumption, times int64) {
	for cluster, target := range one.decided {
		for name, amount := range one.takes.AdditionalAmounts(target, one.base[cluster]) {
			if a.uses[cluster] == nil {
				a.uses[cluster] = view.Amounts{}
			}
			a.uses[cluster][name] += times * amount
		}
	}
}

func targetsByName(clusters []workv1alpha2.TargetCluster) map[string]workv1alpha2.TargetCluster {
	by := make(map[string]workv1alpha2.TargetCluster, len(clusters))
	for _, target := range clusters {
		by[target.Name] = target
	}
	return by
}
