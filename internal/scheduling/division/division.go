// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package division divides replicas among clusters.
//
// It is pure: the same input gives the same output, in whatever order the
// clusters are given that are equally good.
package division

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
)

// ReplicaCandidate is a cluster that may get replicas.
type ReplicaCandidate struct {
	Cluster string
	// Weight is for Weighted division. The cluster gets nothing if it is 0, unless
	// it is so for all.
	Weight int64
	// Available is how many replicas it has room for, beside those that it has. It
	// is not negative, unless the ReplicaWish is Fresh: it has no room then for so many of
	// those that it has.
	Available int32
	// Tier is 0 for clusters that get replicas first. Those of a higher tier get
	// what the tiers below have no room for. It counts for DynamicWeight and
	// Aggregated.
	Tier int
}

// Strategy is how replicas are divided among clusters.
type Strategy string

// The strategies.
const (
	// Duplicated gives all replicas to each cluster.
	Duplicated Strategy = "Duplicated"
	// StaticWeight divides by the weights of the candidates, each time from scratch.
	StaticWeight Strategy = "StaticWeight"
	// DynamicWeight divides by the room that the candidates have, and keeps what
	// was decided before.
	DynamicWeight Strategy = "DynamicWeight"
	// Aggregated is DynamicWeight with as few clusters as have room.
	Aggregated Strategy = "Aggregated"
)

// ReplicaWish is a wish for replicas.
type ReplicaWish struct {
	Strategy Strategy
	Replicas int32
	// Fresh divides by DynamicWeight and Aggregated as if nothing had been decided,
	// with the room that the replicas themselves take.
	Fresh bool
	// Partial places as many replicas as there is room for, if that is not all.
	Partial bool
	Tie     TieBreak
}

// TieBreakOf returns how ties are broken for a template, so that templates with
// one replica do not all go to the same cluster.
func TieBreakOf(uid string) TieBreak {
	if uid == "" {
		return FirstByName
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid)) // never fails
	return hash.Sum32()&1 == 1
}

// NoRoomError says that the candidates together have no room for the replicas.
type NoRoomError struct {
	// Available is what they have room for, and Wanted is what is to be placed.
	Available, Wanted int64
}

// Error is part of error. Clients match the text.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("Clusters available replicas %d are not enough to schedule.", e.Available)
}

// DivideReplicas divides the replicas among the candidates, which are in the order of
// preference; previous is what was decided before. The result is in the order
// of names. The error is a *NoRoomError, and then nothing is placed but what there is
// room for, if the wish is Partial: with what was placed before.
func (w ReplicaWish) DivideReplicas(candidates []ReplicaCandidate, previous []ReplicaShare) ([]ReplicaShare, error) {
	if w.Strategy != DynamicWeight && w.Strategy != Aggregated {
		return w.divideFixed(candidates), nil
	}
	kept := sharesOfCandidates(previous, candidates)
	assigned := totalReplicas(kept)
	switch {
	case w.Fresh:
		return w.fillTiers(int64(w.Replicas), withRoomOf(candidates, kept), nil)
	case assigned > int64(w.Replicas):
		return w.fillTiers(int64(w.Replicas), limitToKept(candidates, kept), nil)
	case assigned < int64(w.Replicas):
		return w.fillTiers(int64(w.Replicas)-assigned, candidates, kept)
	default:
		return byName(kept), nil
	}
}

// divideFixed divides by what does not depend on the room that clusters have.
func (w ReplicaWish) divideFixed(candidates []ReplicaCandidate) []ReplicaShare {
	if w.Strategy == Duplicated {
		shares := make([]ReplicaShare, 0, len(candidates))
		for _, c := range candidates {
			shares = append(shares, ReplicaShare{c.Cluster, w.Replicas})
		}
		return byName(shares)
	}
	var weights int64
	for _, c := range candidates {
		weights += c.Weight
	}
	var parties []Party
	for _, c := range candidates {
		switch {
		case weights == 0:
			parties = append(parties, Party{c.Cluster, 1})
		case c.Weight > 0:
			parties = append(parties, Party{c.Cluster, c.Weight})
		}
	}
	return Webster(int64(w.Replicas), parties, w.Tie)
}

// fillTiers places so many replicas beside those that are kept, tier by tier.
func (w ReplicaWish) fillTiers(replicas int64, candidates []ReplicaCandidate, kept []ReplicaShare) ([]ReplicaShare, error) {
	has := sharesOf(kept)
	candidates = slices.Clone(candidates)
	slices.SortStableFunc(candidates, func(a, b ReplicaCandidate) int {
		first := 0
		if w.Strategy == Aggregated {
			first = keptFirst(has[a.Cluster] > 0, has[b.Cluster] > 0)
		}
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), first, cmp.Compare(b.Available, a.Available))
	})
	var lacking error
	if room := roomOf(candidates); room < replicas {
		lacking = &NoRoomError{Available: room, Wanted: replicas}
		if !w.Partial {
			return nil, lacking
		}
		replicas = room
	}
	shares := kept
	for len(candidates) > 0 && replicas > 0 {
		end := slices.IndexFunc(candidates, func(c ReplicaCandidate) bool { return c.Tier != candidates[0].Tier })
		if end < 0 {
			end = len(candidates)
		}
		placed := w.fillOneTier(replicas, candidates[:end])
		shares, replicas, candidates = mergeShares(shares, placed), replicas-totalReplicas(placed), candidates[end:]
	}
	return byName(shares), lacking
}

// fillOneTier places as many of the replicas as the candidates, which are of one tier
// and in the order of preference, have room for.
func (w ReplicaWish) fillOneTier(replicas int64, candidates []ReplicaCandidate) []ReplicaShare {
	var parties []Party
	var room int64
	for _, c := range candidates {
		if w.Strategy == Aggregated && room >= replicas {
			break
		}
		room += int64(c.Available)
		parties = append(parties, Party{c.Cluster, int64(c.Available)})
	}
	return Webster(min(replicas, room), parties, w.Tie)
}

func roomOf(candidates []ReplicaCandidate) int64 {
	var room int64
	for _, c := range candidates {
		room += int64(c.Available)
	}
	return room
}

func keptFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// sharesOfCandidates returns the shares of clusters that are candidates.
func sharesOfCandidates(shares []ReplicaShare, candidates []ReplicaCandidate) []ReplicaShare {
	candidate := make(map[string]bool, len(candidates))
	for _, c := range candidates {
		candidate[c.Cluster] = true
	}
	var kept []ReplicaShare
	for _, s := range shares {
		if s.Replicas > 0 && candidate[s.Cluster] {
			kept = append(kept, s)
		}
	}
	return kept
}

func totalReplicas(shares []ReplicaShare) int64 {
	var sum int64
	for _, s := range shares {
		sum += int64(s.Replicas)
	}
	return sum
}

func sharesOf(shares []ReplicaShare) map[string]int32 {
	by := make(map[string]int32, len(shares))
	for _, s := range shares {
		by[s.Cluster] += s.Replicas
	}
	return by
}

// limitToKept returns the candidates with room for what is kept, and no more.
func limitToKept(candidates []ReplicaCandidate, kept []ReplicaShare) []ReplicaCandidate {
	has := sharesOf(kept)
	same := slices.Clone(candidates)
	for i := range same {
		same[i].Available = has[same[i].Cluster]
	}
	return same
}

func withRoomOf(candidates []ReplicaCandidate, kept []ReplicaShare) []ReplicaCandidate {
	has := sharesOf(kept)
	more := slices.Clone(candidates)
	for i := range more {
		more[i].Available = int32(max(0, min(math.MaxInt32, int64(more[i].Available)+int64(has[more[i].Cluster]))))
	}
	return more
}

func mergeShares(a, b []ReplicaShare) []ReplicaShare {
	by := sharesOf(append(slices.Clone(a), b...))
	merged := make([]ReplicaShare, 0, len(by))
	for cluster, replicas := range by {
		merged = append(merged, ReplicaShare{cluster, replicas})
	}
	return byName(merged)
}
