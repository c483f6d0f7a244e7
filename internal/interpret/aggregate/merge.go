// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// keysMax is how many keys an object has that is merged from those of all clusters,
// and nestedSumsMax how deep sums are in it.
const (
	keysMax       = 1000
	nestedSumsMax = 8
)

// LongestDuration returns the longest of some durations, as it is written; nil if none is one.
func LongestDuration(durations ...any) any {
	var picked any
	var most time.Duration
	for _, value := range durations {
		text, _ := value.(string)
		duration, err := time.ParseDuration(text)
		if err == nil && (picked == nil || duration > most) {
			picked = value
			most = duration
		}
	}
	return picked
}

// MergeFields takes over the fields of an object, in place of those that are there, up to a
// limit of fields.
func MergeFields(all, one map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(one)) {
		if _, has := all[name]; has || len(all) < keysMax {
			all[name] = one[name]
		}
	}
}

// MergeSums adds the numbers of an object to those that are there, also in the objects
// in it, up to a limit of fields and of depth. All else is left out, and no sum is more
// than Kubernetes keeps.
func MergeSums(all, one map[string]any) { addSums(all, one, nestedSumsMax) }

func addSums(all, one map[string]any, depth int) {
	if depth == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(one)) {
		before, has := all[name]
		if !has && len(all) >= keysMax {
			continue
		}
		switch value := one[name].(type) {
		case map[string]any:
			inner, is := before.(map[string]any)
			if has && !is {
				continue
			}
			if !is {
				inner = map[string]any{}
			}
			addSums(inner, value, depth-1)
			if len(inner) > 0 {
				all[name] = inner
			}
		default:
			n, whole := fields.Whole(value)
			if _, object := before.(map[string]any); whole && !object {
				all[name] = min(math.MaxInt32, fields.IntOr(0, all, name)+max(0, min(math.MaxInt32, n)))
			}
		}
	}
}
