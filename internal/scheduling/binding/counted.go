// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/capacity"
)

// partRequestsMax is how many resources all parts of an object may request together.
const partRequestsMax = 16 * view.RequestsMax

// countedRoom is what is known of an object and of the fleet before a decision, whatever is assumed of
// clusters.
type countedRoom struct {
	request capacity.ReplicaRequest
	// evicting are the clusters that the object is being evicted from.
	evicting sets.Set[string]
	// all is how often each cluster has room for an object that is placed as a whole, and
	// lacking for what its clusters lack of it.
	all, lacking map[string]capacity.SetCount
	// available is how many further replicas clusters have room for, as far as it was asked in a decision.
	available map[string]int32
}

// CheckRequests returns what is wrong with an object whose replicas request more resources than
// can be compared with what each cluster has.
func (in PlacementInput) CheckRequests() field.ErrorList {
	path := field.NewPath("spec")
	if in.Requirements != nil && len(in.Requirements.ResourceRequest) > view.RequestsMax {
		return field.ErrorList{field.TooMany(path.Child("replicaRequirements", "resourceRequest"), len(in.Requirements.ResourceRequest), view.RequestsMax)}
	}
	sum := 0
	for i, part := range in.Components {
		many := len(requestedResources(part))
		if many > view.RequestsMax {
			return field.ErrorList{field.TooMany(path.Child("components").Index(i).Child("replicaRequirements", "resourceRequest"), many, view.RequestsMax)}
		}
		sum += many
	}
	if sum <= partRequestsMax {
		return nil
	}
	mistake := field.TooMany(path.Child("components"), sum, partRequestsMax)
	mistake.Detail += ": these are the resources that all of them request together; request fewer"
	return field.ErrorList{mistake}
}

// CountRoom returns the input with what it takes long to find out about the fleet, and what nothing that is
// assumed of clusters changes. Whoever holds a lock for a decision calls it before.
func (c CompiledPlacement) CountRoom(fleet view.Fleet, in PlacementInput) PlacementInput {
	counted := &countedRoom{evicting: sets.New(in.Evicting...)}
	in.counted = counted
	if in.Requirements != nil {
		counted.request = capacity.RequestOf(in.Requirements.ResourceRequest)
	}
	if !c.byRoom() || !in.placedAsWhole() {
		return in
	}
	set := in.capacitySet()
	counted.all = map[string]capacity.SetCount{}
	counted.lacking = map[string]capacity.SetCount{}
	for i := range fleet.Len() {
		if cluster := fleet.ClusterAt(i); c.selectsCluster(cluster) {
			counted.all[cluster.Name] = set.CountSets(cluster.Room)
		}
	}
	for _, target := range in.Previous {
		at, found := fleet.FindCluster(target.Name)
		if _, twice := counted.lacking[target.Name]; found && !twice {
			counted.lacking[target.Name] = in.lackingSet(set, target).CountSets(fleet.ClusterAt(at).Room)
		}
	}
	return in
}

// selectsCluster reports whether any of the affinities selects a cluster.
func (c *CompiledPlacement) selectsCluster(cluster *view.Cluster) bool {
	for n := range c.groups {
		if c.groups[n].tierOfCluster(cluster) < len(c.groups[n].tiers) {
			return true
		}
	}
	return false
}
