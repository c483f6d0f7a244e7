// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/division"
)

// Stake is what of an object, beside its placement, decides whether a change of a
// cluster can matter to it. Most objects of a policy have the same.
type Stake struct {
	APIVersion, Kind string
	// Affinity is the group that its clusters are from, if there are several.
	Affinity string
	// Evicting are the clusters that it is leaving, separated by commas.
	Evicting string
	// Fresh says that its clusters are to be chosen anew.
	Fresh bool
	// Scales says that it has replicas, Placed that it has clusters, and Short that
	// these have not as many replicas as it wants. What is placed as a whole has
	// replicas, too.
	Scales, Placed, Short bool
}

// Stake returns what is at stake for an object.
func (in Input) Stake() Stake {
	stake := Stake{
		APIVersion: in.Resource.APIVersion, Kind: in.Resource.Kind, Affinity: in.ObservedAffinity, Evicting: strings.Join(in.Evicting, ","),
		Fresh: in.Fresh, Scales: in.Workload && in.Replicas > 0, Placed: len(in.Previous) > 0, Short: placed(in.Previous) != int64(in.Replicas),
	}
	if in.whole() {
		stake.Scales, stake.Short = true, !in.complete()
	}
	return stake
}

// lacks tells whether the object is not yet placed as it should be.
func (s Stake) lacks(divided bool) bool { return !s.Placed || divided && s.Short }

func (s Stake) evicting() []string {
	if s.Evicting == "" {
		return nil
	}
	return strings.Split(s.Evicting, ",")
}

// Affected tells whether a change of a cluster can change what is decided for an
// object, so that in a large fleet only the bindings are decided anew that can
// care. nil is a cluster that does not exist; one that is gone is affected if the
// object was there: target says so.
//
// What each cluster gets a copy of cares about every cluster that may or may no
// longer be chosen. Replicas that are divided care only about the loss of a
// cluster that has some, or if they are not all placed about every cluster that
// may help: new clusters and free capacity alone move nothing.
func (c Compiled) Affected(before, after *view.Cluster, stake Stake, target bool, now time.Time) bool {
	if target && after == nil {
		return true
	}
	divided := c.divides(stake)
	lacking := stake.lacks(divided)
	if divided && !lacking && !target {
		return false
	}
	shifts := (!divided || lacking) && (c.moves(before, after) || divided && c.byRoom() && grows(before, after))
	first := c.begin(stake.Affinity, stake.Fresh)
	groups := c.groups[first : first+1]
	if lacking { // the groups that come after would do, too
		groups = c.groups[first:]
	}
	return slices.ContainsFunc(groups, func(g group) bool {
		request := g.request.Placing(stake.APIVersion, stake.Kind, stake.evicting())
		return request.Affected(before, after, target, now) || shifts && request.Admits(after, target, now)
	})
}

// Reconfirms tells whether a change of a cluster's labels or spec is about what
// each cluster gets a copy of. That decision is then made again, though it may
// come out the same: clients wait until status.lastScheduledTime is later than
// their change.
func (c Compiled) Reconfirms(before, after *view.Cluster, stake Stake) bool {
	if c.divides(stake) || before == nil || after == nil || maps.Equal(before.Labels, after.Labels) && slices.Equal(before.Taints, after.Taints) &&
		slices.Equal(before.Zones, after.Zones) && before.Region == after.Region && before.Provider == after.Provider {
		return false
	}
	g := &c.groups[c.begin(stake.Affinity, stake.Fresh)]
	return g.tier(before) < len(g.tiers) || g.tier(after) < len(g.tiers)
}

// divides tells whether each cluster gets a share of the replicas.
func (c *Compiled) divides(stake Stake) bool {
	return c.strategy != division.Duplicated && stake.Scales
}

// moves tells whether a cluster has changed its place in a topology of the
// spread constraints.
func (c *Compiled) moves(before, after *view.Cluster) bool {
	if before == nil || after == nil {
		return false
	}
	for _, topology := range c.topologies {
		if !slices.Equal(topology.Groups(before), topology.Groups(after)) {
			return true
		}
	}
	return false
}

// grows tells whether a cluster may have more room than before.
func grows(before, after *view.Cluster) bool {
	if before == nil || after == nil || after.Room == nil || before.Room == nil {
		return before != nil && after != nil && before.Room != after.Room
	}
	return !maps.Equal(before.Room.Free, after.Room.Free) || !slices.EqualFunc(before.Room.Grades, after.Room.Grades, func(a, b view.Grade) bool {
		return a.Nodes == b.Nodes && maps.Equal(a.Least, b.Least)
	})
}
