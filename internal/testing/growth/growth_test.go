// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"slices"
	"testing"
)

// failing notes that a test has failed.
type failing struct {
	testing.TB

	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestInProportion(t *testing.T) {
	for name, test := range map[string]struct {
		find  func(list []int, one int) bool
		fails bool
	}{
		"each is looked for by halves":    {find: func(list []int, one int) bool { _, is := slices.BinarySearch(list, one); return is }},
		"each is looked for among others": {find: slices.Contains[[]int], fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &failing{TB: t}
			InProportion(f, 1_000, 16, func(many int) func() {
				list := make([]int, many)
				for i := range list {
					list[i] = i
				}
				return func() {
					for i := range list {
						if !test.find(list, i) {
							t.Errorf("%d is not in the list", i)
						}
					}
				}
			})
			if f.failed != test.fails {
				t.Errorf("it fails: %t, want %t", f.failed, test.fails)
			}
		})
	}
}
