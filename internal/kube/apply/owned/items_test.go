// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// manyKeys is how many keys items may have that fill the memory.
const manyKeys = 20

// some returns an item with those keys of a number that the mask has a bit for.
func some(mask uint, of int, value any) map[string]any {
	item := map[string]any{}
	for key := range of {
		if mask&(1<<key) != 0 {
			item[fmt.Sprintf("k%02d", key)] = value
		}
	}
	return item
}

// masks returns so many different masks of many keys with as many bits as are wanted, which have
// little in common.
func masks(want, ones int) (few []uint) {
	var all []uint
	for mask := range uint(1 << manyKeys) {
		if bits.OnesCount(mask) == ones {
			all = append(all, mask)
		}
	}
	for i := range want {
		few = append(few, all[i*len(all)/want])
	}
	return few
}

// TestKeysOfItemsFillNoMemory has each item of a list, and each element of a set, have others of
// many keys. Twice as many of both take not much more than twice the memory. It does not run
// beside other tests, of whose memory it would count some.
func TestKeysOfItemsFillNoMemory(t *testing.T) {
	const n = 100
	take := func(n int) uint64 {
		var list []any
		for _, mask := range masks(n, manyKeys/2) {
			list = append(list, some(mask, manyKeys, int64(1)))
		}
		elements := []map[string]any{some(1<<manyKeys-1, manyKeys, int64(0))} // which comes first, and has the identity
		for _, mask := range masks(n, manyKeys/2-1) {
			elements = append(elements, some(mask, manyKeys, int64(2)))
		}
		fields := map[string]any{}
		for _, element := range elements {
			text, err := json.Marshal(element)
			expect.NoError(t, err)
			fields["k:"+string(text)] = map[string]any{}
		}
		text, err := json.Marshal(fields)
		expect.NoError(t, err)
		set, err := DecodeManagedFields(entryOf(string(text)))
		expect.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		inside := ValuesInside(set, list)
		set.Members.Iterate(func(element fieldpath.PathElement) {
			if found := inside(element); len(found) > 0 {
				t.Errorf("%s is found: %v", element, found)
			}
		})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	take(n) // what is made once
	if once, twice := take(n), take(2*n); twice > 3*once+4096 {
		t.Errorf("%d items take %d bytes, and %d take %d", n, once, 2*n, twice)
	}
}

// TestFewLookupsAreKept has items of a list, and those looked for, have any of some keys.
func TestFewLookupsAreKept(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 3, keysMax} {
		identity, every := ItemIdentity{}, uint(1)<<count
		for key := range some(every-1, count, 0) {
			identity = append(identity, key)
		}
		slices.Sort(identity)
		var list []any
		for mask := uint(1); mask < every; mask++ {
			list = append(list, some(mask, count, fmt.Sprint(mask)))
		}
		items := NewListItems(list, identity)
		for mask := range every {
			items.IndexesLike(some(mask, count, "0")) // which are none
		}
		if len(items.found) > lookupsMax {
			t.Errorf("%d keys: there are %d lookups, want at most %d", count, len(items.found), lookupsMax)
		}
		for at, item := range list {
			if like := items.IndexesLike(item); count <= 3 && !slices.Equal(like, []int{at}) {
				t.Errorf("%d keys: like %v are %v, want %d", count, item, like, at)
			}
		}
	}
}

// TestFewItemsAreAlike has one item many times in a list.
func TestFewItemsAreAlike(t *testing.T) {
	t.Parallel()
	list := slices.Repeat([]any{map[string]any{"a": "b"}}, 3*alikeMax)
	items := NewListItems(list, ItemIdentity{"a", "c"})
	for _, item := range []map[string]any{{"a": "b"}, {"a": "b", "c": "d"}} {
		if like := items.IndexesLike(item); len(like) != alikeMax || like[0] != 0 {
			t.Errorf("like %v are %v", item, like)
		}
	}
}
