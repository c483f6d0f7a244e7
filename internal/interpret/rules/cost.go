// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"math"

	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	// bytesPerCost is how much text one unit of cost pays for, as in CEL.
	bytesPerCost = 10
	// sizeMax is where counting the size of a value ends.
	sizeMax = 64 << 20
	// sizeDepthMax is how deep a value is counted.
	sizeDepthMax = 100
)

// costs are the functions whose work grows with what they are given, and for
// which CEL counts less than that: it counts one for a conversion, whatever its
// length, and compares objects by the number of their fields, not by all that
// is in them.
func costs() []interpreter.CostTrackerOption {
	tracker := func(cost func(args []ref.Val) int) interpreter.FunctionTracker {
		return func(args []ref.Val, _ ref.Val) *uint64 {
			units := uint64(1 + cost(args)/bytesPerCost)
			return &units
		}
	}
	first := tracker(func(args []ref.Val) int { return textSize(args[0]) })
	both := tracker(func(args []ref.Val) int {
		return min(deepSize(args[0].Value(), sizeMax, sizeDepthMax), deepSize(args[1].Value(), sizeMax, sizeDepthMax))
	})
	inside := tracker(func(args []ref.Val) int { return deepSize(args[1].Value(), sizeMax, sizeDepthMax) })
	pattern := tracker(func(args []ref.Val) int {
		length := textSize(args[1])
		if length > patternBytesMax {
			return 0 // nothing was done
		}
		return (1 + textSize(args[0])) * (1 + length/4)
	})
	var options []interpreter.CostTrackerOption
	add := func(t interpreter.FunctionTracker, ids ...string) {
		for _, id := range ids {
			options = append(options, interpreter.OverloadCostTracker(id, t))
		}
	}
	add(first, overloads.SizeString, overloads.SizeStringInst,
		overloads.StringToBytes, overloads.BytesToString, overloads.StringToInt, overloads.StringToUint,
		overloads.StringToDouble, overloads.StringToTimestamp, overloads.StringToDuration)
	add(both, overloads.Equals, overloads.NotEquals)
	add(inside, overloads.InList, "string_format")
	add(pattern, overloads.Matches, overloads.MatchesString,
		"string_find_string", "string_find_all_string", "string_find_all_string_int")
	return options
}

// textSize is the length of a text in bytes, 0 for other values.
func textSize(value ref.Val) int {
	switch v := value.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}

// deepSize is about the number of bytes of a value with all that is in it, or
// something beyond the limit.
func deepSize(value any, limit, depth int) int {
	const scalar = 16
	if depth == 0 {
		return math.MaxInt32
	}
	size := scalar
	switch v := value.(type) {
	case string:
		return scalar + len(v)
	case []byte:
		return scalar + len(v)
	case ref.Val:
		return deepSize(v.Value(), limit, depth-1)
	case map[string]any:
		for key, item := range v {
			if size += len(key) + deepSize(item, limit, depth-1); size > limit {
				break
			}
		}
	case map[ref.Val]ref.Val:
		for key, item := range v {
			if size += deepSize(key, limit, depth-1) + deepSize(item, limit, depth-1); size > limit {
				break
			}
		}
	case []any:
		for _, item := range v {
			if size += deepSize(item, limit, depth-1); size > limit {
				break
			}
		}
	case []ref.Val:
		for _, item := range v {
			if size += deepSize(item, limit, depth-1); size > limit {
				break
			}
		}
	case []string:
		for _, item := range v {
			if size += scalar + len(item); size > limit {
				break
			}
		}
	}
	return size
}
