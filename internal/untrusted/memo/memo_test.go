// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package memo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/untrusted/memo"
)

func TestAMemoIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	const most = 100_000
	for name, length := range map[string]int{"short": 10, "long": 20_000} {
		m := memo.NewMemo[int](most)
		remembered := func(n int) (count int) {
			for i := range n {
				if _, known := m.Get(fmt.Sprintf("%0*d", length, i)); known {
					count++
				}
			}
			return count
		}
		for i := range 1000 {
			m.StoreIfAbsent(fmt.Sprintf("%0*d", length, i), i)
			if made, known := m.Get(fmt.Sprintf("%0*d", length, i)); !known || made != i {
				t.Fatalf("%s: what was just remembered is %d (known: %t)", name, made, known)
			}
		}
		if n := remembered(1000); n*length > most || n > most/100 {
			t.Errorf("%d %s texts are remembered", n, name)
		}
	}
}

func TestAMemoKeepsOneOfEqualTexts(t *testing.T) {
	t.Parallel()
	m := memo.NewMemo[int](10_000)
	if first, second := m.StoreIfAbsent("a", 1), m.StoreIfAbsent("a", 2); first != 1 || second != 1 {
		t.Errorf("got %d and %d, want the first one", first, second)
	}
	if made := m.StoreIfAbsent(strings.Repeat("x", 9_000), 3); made != 3 {
		t.Errorf("got %d", made)
	}
	if _, known := m.Get(strings.Repeat("x", 9_000)); known {
		t.Error("one text may take nearly all of the memory")
	}
	if _, known := m.Get("a"); !known {
		t.Error("a long text has driven out what is needed")
	}
}
