// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/division"
)

// ChangeSensitivity is what of an object, beside its placement, decides whether a change of a
// cluster can matter to it. Most objects of a policy have the same.
type ChangeSensitivity struct {
	APIVersion, Kind string
	// Affinity is the group that its clusters are from, if there are several.
	Affinity string
	// Evicting are the clusters that it is leaving, in the order of names, with a comma before and after each.
	Evicting string
	// Fresh says that its clusters are to be chosen anew.
	Fresh bool
	// Scales says that it has replicas, Placed that it has clusters, and Short that
	// these have not as many replicas as it wants. What is placed as a whole has
	// replicas, too.
	Scales, Placed, Short bool
}

// ChangeSensitivity returns what is at stake for an object.
func (in PlacementInput) ChangeSensitivity() ChangeSensitivity {
	stake := ChangeSensitivity{
		APIVersion: in.Resource.APIVersion, Kind: in.Resource.Kind, Affinity: in.ObservedAffinity, Evicting: evictingNames(in.Evicting),
		Fresh: in.Fresh, Scales: in.Workload && in.Replicas > 0, Placed: len(in.Previous) > 0, Short: placedReplicas(in.Previous) != int64(in.Replicas),
	}
	if in.placedAsWhole() {
		stake.Scales, stake.Short = true, !in.isComplete()
	}
	return stake
}

// evictingNames returns the names of clusters as ChangeSensitivity has them.
func evictingNames(clusters []string) string {
	if len(clusters) == 0 {
		return ""
	}
	return "," + strings.Join(sets.List(sets.New(clusters...)), ",") + ","
}

// lacksPlacement reports whether the object is not yet placed as it should be.
func (s ChangeSensitivity) lacksPlacement(divided bool) bool { return !s.Placed || divided && s.Short }

// leavesOneOf returns those of the clusters, of which any may be nil, that the object is
// leaving: in a change of one cluster no other matters, however many it leaves.
func (s ChangeSensitivity) leavesOneOf(clusters ...*view.Cluster) sets.Set[string] {
	var leaves sets.Set[string]
	for _, cluster := range clusters {
		if cluster != nil && strings.Contains(s.Evicting, ","+cluster.Name+",") {
			leaves = leaves.Union(sets.New(cluster.Name))
		}
	}
	return leaves
}

// AffectedByChange reports whether a change of a cluster can change what is decided for an
// object, so that in a large fleet only the bindings are decided anew that can
// care. nil is a cluster that does not exist; one that is gone is affected if the
// object was there: target says so.
//
// What each cluster gets a copy of cares about every cluster that may or may no
// longer be chosen. Replicas that are divided care only about the loss of a
// cluster that has some, or if they are not all placed about every cluster that
// may help: new clusters and free capacity alone move nothing.
func (c CompiledPlacement) AffectedByChange(before, after *view.Cluster, stake ChangeSensitivity, target bool, now time.Time) bool {
	if target && after == nil {
		return true
	}
	divided := c.dividesReplicas(stake)
	lacking := stake.lacksPlacement(divided)
	if divided && !lacking && !target {
		return false
	}
	shifts := (!divided || lacking) && (c.changesTopology(before, after) || divided && c.byRoom() && mayHaveMoreRoom(before, after))
	first := c.firstGroupIndex(stake.Affinity, stake.Fresh)
	groups := c.groups[first : first+1]
	if lacking { // the groups that come after would do, too
		groups = c.groups[first:]
	}
	leaves := stake.leavesOneOf(before, after)
	return slices.ContainsFunc(groups, func(g affinityGroup) bool {
		request := g.request.ForBindingObject(stake.APIVersion, stake.Kind, leaves)
		return request.AffectedByChange(before, after, target, now) || shifts && request.AdmitsCluster(after, target, now)
	})
}

// ReconfirmsDecision reports whether a change of a cluster's labels or spec is about what
// each cluster gets a copy of. That decision is then made again, though it may
// come out the same: clients wait until status.lastScheduledTime is later than
// their change.
func (c CompiledPlacement) ReconfirmsDecision(before, after *view.Cluster, stake ChangeSensitivity) bool {
	if c.dividesReplicas(stake) || before == nil || after == nil || maps.Equal(before.Labels, after.Labels) && slices.Equal(before.Taints, after.Taints) &&
		slices.Equal(before.Zones, after.Zones) && before.Region == after.Region && before.Provider == after.Provider {
		return false
	}
	g := &c.groups[c.firstGroupIndex(stake.Affinity, stake.Fresh)]
	return g.tierOfCluster(before) < len(g.tiers) || g.tierOfCluster(after) < len(g.tiers)
}

// dividesReplicas reports whether each cluster gets a share of the replicas.
func (c *CompiledPlacement) dividesReplicas(stake ChangeSensitivity) bool {
	return c.strategy != division.Duplicated && stake.Scales
}

// changesTopology reports whether a cluster has changed its place in a topology of the
// spread constraints.
func (c *CompiledPlacement) changesTopology(before, after *view.Cluster) bool {
	if before == nil || after == nil {
		return false
	}
	for _, topology := range c.topologies {
		if !slices.Equal(topology.GroupsOfCluster(before), topology.GroupsOfCluster(after)) {
			return true
		}
	}
	return false
}

// mayHaveMoreRoom reports whether a cluster may have more room than before.
func mayHaveMoreRoom(before, after *view.Cluster) bool {
	if before == nil || after == nil || after.Room == nil || before.Room == nil {
		return before != nil && after != nil && before.Room != after.Room
	}
	return !maps.Equal(before.Room.Free, after.Room.Free) || !slices.EqualFunc(before.Room.Grades, after.Room.Grades, func(a, b view.Grade) bool {
		return a.Nodes == b.Nodes && maps.Equal(a.Least, b.Least)
	})
}
