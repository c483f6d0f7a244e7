// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"math"
	"math/bits"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// usedAmounts are the sums of what objects are assumed to take, by cluster. What is taken away again is
// exactly what was added, however much that was.
type usedAmounts struct {
	// byCluster has no more than the greatest number, and sums what it really is. Both have what
	// is more than 0.
	byCluster map[string]view.Amounts
	sums      map[usedResource]wideSum
}

// usedResource is a resource of a cluster.
type usedResource struct {
	cluster  string
	resource corev1.ResourceName
}

// wideSum is a sum of numbers that are not less than 0, for as many as there may be.
type wideSum struct{ high, low uint64 }

func newUsedAmounts() *usedAmounts {
	return &usedAmounts{byCluster: map[string]view.Amounts{}, sums: map[usedResource]wideSum{}}
}

// addUses adds what an object is assumed to take more than it did.
func (u *usedAmounts) addUses(one assumption) { u.countUses(one, wideSum.plusAmount) }

// removeUses takes away what addUses has added for the same.
func (u *usedAmounts) removeUses(one assumption) { u.countUses(one, wideSum.minusAmount) }

func (u *usedAmounts) countUses(one assumption, count func(sum wideSum, amount uint64) wideSum) {
	for cluster, target := range one.decided {
		for name, amount := range one.takes.AdditionalAmounts(target, one.base[cluster]) {
			at := usedResource{cluster, name}
			u.setSum(at, count(u.sums[at], uint64(amount))) //nolint:gosec // amounts are not negative
		}
	}
}

func (u *usedAmounts) setSum(at usedResource, sum wideSum) {
	amounts := u.byCluster[at.cluster]
	if sum == (wideSum{}) {
		delete(u.sums, at)
		if delete(amounts, at.resource); len(amounts) == 0 {
			delete(u.byCluster, at.cluster)
		}
		return
	}
	if amounts == nil {
		amounts = view.Amounts{}
		u.byCluster[at.cluster] = amounts
	}
	u.sums[at] = sum
	amounts[at.resource] = sum.clampedSum()
}

func (s wideSum) plusAmount(amount uint64) wideSum {
	low, carry := bits.Add64(s.low, amount, 0)
	return wideSum{high: s.high + carry, low: low}
}

func (s wideSum) minusAmount(amount uint64) wideSum {
	low, borrow := bits.Sub64(s.low, amount, 0)
	return wideSum{high: s.high - borrow, low: low}
}

// clampedSum returns the sum, or the greatest number if it is more.
func (s wideSum) clampedSum() int64 {
	if s.high > 0 || s.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.low)
}
