// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// ReplicaShare is how many replicas a cluster gets.
type ReplicaShare struct {
	Cluster  string
	Replicas int32
}

// Party is a cluster with a weight, which is not negative.
type Party struct {
	Cluster string
	Weight  int64
}

// TieBreak says who gets a replica of those that deserve it alike and have
// equally many.
type TieBreak bool

// The tie breaks.
const (
	// FirstByName is the cluster whose name comes first.
	FirstByName TieBreak = false
	// LastByName is the cluster whose name comes last.
	LastByName TieBreak = true
)

// Webster divides seats among parties by the method of Webster, also known as
// that of Sainte-Laguë: one after the other goes to the party with the highest
// weight/(2*seats+1). The result is in the order of names, without those that
// get nothing.
func Webster(seats int64, parties []Party, tie TieBreak) []ReplicaShare {
	queue := &quotients{tie: tie}
	for _, p := range parties {
		queue.parties = append(queue.parties, seated{Party: p})
	}
	if len(parties) == 0 {
		return nil
	}
	left := queue.seatSurely(seats)
	heap.Init(queue)
	for range left {
		queue.parties[0].seats++
		heap.Fix(queue, 0)
	}
	var shares []ReplicaShare
	for _, p := range queue.parties {
		if p.seats > 0 {
			shares = append(shares, ReplicaShare{p.Cluster, p.seats})
		}
	}
	return byName(shares)
}

// seatSurely gives the parties seats that they get in any case, and returns how
// many are left: a few for each party, however many there were. In the end a
// party has at least w/d - 1/2 seats for some divisor d, the same for all; so for
// n parties of weights W together 1/d is at least (seats - n/2)/W.
func (q *quotients) seatSurely(seats int64) (left int64) {
	var weights float64
	for _, p := range q.parties {
		weights += float64(p.Weight)
	}
	n := float64(len(q.parties))
	left = seats
	for i := range q.parties {
		share := 1 / n // if nobody has a weight, all are alike
		if weights > 0 {
			share = float64(q.parties[i].Weight) / weights
		}
		const rounding = 1
		sure := int64(share*(float64(seats)-n/2) - 0.5 - rounding)
		q.parties[i].seats = int32(max(0, min(sure, math.MaxInt32)))
		left -= int64(q.parties[i].seats)
	}
	return left
}

func byName(shares []ReplicaShare) []ReplicaShare {
	slices.SortFunc(shares, func(a, b ReplicaShare) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return shares
}

// seated is a party, and the seats that it has.
type seated struct {
	Party

	seats int32
}

func (s seated) quotient() float64 { return float64(s.Weight) / float64(2*int64(s.seats)+1) }

// quotients is a heap whose first party gets the next seat.
type quotients struct {
	parties []seated
	tie     TieBreak
}

// Len is part of heap.Interface.
func (q *quotients) Len() int { return len(q.parties) }

// Less is part of heap.Interface.
func (q *quotients) Less(i, j int) bool {
	a := q.parties[i]
	b := q.parties[j]
	name := cmp.Compare(a.Cluster, b.Cluster)
	if q.tie == LastByName {
		name = -name
	}
	return cmp.Or(cmp.Compare(b.quotient(), a.quotient()), cmp.Compare(a.seats, b.seats), name) < 0
}

// Swap is part of heap.Interface.
func (q *quotients) Swap(i, j int) { q.parties[i], q.parties[j] = q.parties[j], q.parties[i] }

// Push is part of heap.Interface. Parties do not come later.
func (q *quotients) Push(any) {}

// Pop is part of heap.Interface. Parties do not leave.
func (q *quotients) Pop() any { return nil }
