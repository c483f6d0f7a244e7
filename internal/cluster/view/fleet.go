// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
)

// Fleet is some or all clusters of a hub at one moment. It does not change; the
// zero value has no cluster.
type Fleet struct {
	clusters []*Cluster // in the order of names; none changes
}

// NewFleet returns the fleet of the clusters, whose names differ.
func NewFleet(clusters ...Cluster) Fleet {
	own := slices.Clone(clusters)
	sorted := make([]*Cluster, len(own))
	for i := range own {
		sorted[i] = &own[i]
	}
	slices.SortFunc(sorted, byName)
	return Fleet{clusters: sorted}
}

func byName(a, b *Cluster) int { return cmp.Compare(a.Name, b.Name) }

// WithClusters returns the fleet with clusters in the place of those of their names, or
// added, and without those of the other names. In a large fleet it costs far
// less than a new one.
func (f Fleet) WithClusters(clusters []Cluster, gone []string) Fleet {
	own := slices.Clone(clusters)
	merged := slices.Clone(f.clusters)
	var added []*Cluster
	for i := range own {
		if at, found := f.FindCluster(own[i].Name); found {
			merged[at] = &own[i]
		} else {
			added = append(added, &own[i])
		}
	}
	if len(gone) > 0 {
		names := slices.Sorted(slices.Values(gone))
		merged = slices.DeleteFunc(merged, func(c *Cluster) bool {
			_, is := slices.BinarySearch(names, c.Name)
			return is
		})
	}
	if len(added) > 0 {
		merged = append(merged, added...)
		slices.SortFunc(merged, byName)
	}
	return Fleet{clusters: merged}
}

// Len returns the number of clusters.
func (f Fleet) Len() int { return len(f.clusters) }

// ClusterAt returns the cluster at a place in the order of names, from 0 to Len-1. It
// must not be changed.
func (f Fleet) ClusterAt(i int) *Cluster { return f.clusters[i] }

// FindCluster returns the place of the cluster of a name.
func (f Fleet) FindCluster(name string) (int, bool) {
	return slices.BinarySearchFunc(f.clusters, name, func(c *Cluster, name string) int { return cmp.Compare(c.Name, name) })
}

// ClusterNamed returns the cluster of a name.
func (f Fleet) ClusterNamed(name string) (Cluster, bool) {
	i, found := f.FindCluster(name)
	if !found {
		return Cluster{}, false
	}
	return *f.clusters[i], true
}

// SameIdentity returns the clusters of other names that are the cluster of an identity,
// whatever the hub makes of that, in the order of names. Nobody is who is not
// known, and nobody who may only ask for acceptance: he can say that he is any.
func (f Fleet) SameIdentity(identity, but string) []Cluster {
	var same []Cluster
	for _, c := range f.clusters {
		if identity != "" && c.Name != but && c.OwnsNamespace() && c.KnownIdentity() == identity {
			same = append(same, *c)
		}
	}
	return same
}

// FirstOfIdentity returns the one among the others that was in the fleet as the cluster
// of this identity before the given one: one that is admitted or, if the given
// one is not and they wait alike, the oldest. What a cluster claims counts only
// until it is admitted; from then on it is who the hub holds it for.
func (f Fleet) FirstOfIdentity(identity string, mine Cluster) (first Cluster, found bool) {
	if identity == "" {
		return Cluster{}, false
	}
	for _, other := range f.clusters {
		if other.Name != mine.Name && other.Held == identity && other.isInFleet() {
			return *other, true
		}
	}
	if mine.Admission == Admitted {
		return Cluster{}, false
	}
	for _, other := range f.clusters {
		if other.Name != mine.Name && other.Claimed == identity && other.AwaitsAcceptance() && other.createdBefore(mine) && (!found || other.createdBefore(first)) {
			first = *other
			found = true
		}
	}
	return first, found
}

// MayShare reports whether two names of one cluster may be in the fleet at the
// same time: each has an agent of its own then. One that the hub dials may have
// one name only.
func MayShare(a, b Cluster) bool { return a.Mode == Pull && b.Mode == Pull }

// isInFleet reports whether the cluster is in the fleet.
func (c Cluster) isInFleet() bool { return c.Accepted && c.Admission == Admitted }

// AwaitsAcceptance reports whether the cluster is about to be admitted, or would be if it
// were not there already.
func (c Cluster) AwaitsAcceptance() bool {
	return c.Accepted && !c.Deleting && (c.Admission == Undecided || c.Admission == Twin)
}

func (c Cluster) createdBefore(other Cluster) bool {
	return cmp.Or(c.Created.Compare(other.Created), cmp.Compare(c.Name, other.Name)) < 0
}
