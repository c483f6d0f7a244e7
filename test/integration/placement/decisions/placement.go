// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions

// Settle waits until a Placement is decided that comes after all that has
// happened.
func (h Hub) Settle(name string) {
	h.Helper()
	last := Placing("settled-"+name, "few")
	h.CreateAll(last)
	h.ListsDecisions(last, map[int][]string{0: ClusterNames(1, 3)}, 1)
}
