// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"math"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

const (
	// bytesPerCost is how many bytes of text one unit of cost pays for, as in CEL.
	bytesPerCost = 10
	// zoneCost is what it costs to look up a time zone.
	zoneCost = 1000
	// sizeMax is where counting the size of a value ends, in bytes.
	sizeMax = 64 << 20
	// sizeDepthMax is how deep a value is counted.
	sizeDepthMax = 100
)

// prices tell what calls cost. CEL itself knows the price of a call only if it
// knows the types of its arguments before the evaluation, which for the fields
// of an object of any kind it does not; it takes one unit then, however long a
// text or a list is. So the price is found here, by what the arguments are:
// one, and one more for every ten bytes of text that are read or made, and for
// every item of a list.
type prices struct{ patterns *patterns }

// CallCost implements interpreter.ActualCostEstimator.
func (p prices) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	units := 1 + p.work(function, args, result)/bytesPerCost
	return &units
}

// work is about the number of bytes that a call reads and makes.
func (p prices) work(function string, args []ref.Val, result ref.Val) (work uint64) {
	switch function {
	case operators.Equals, operators.NotEquals, operators.In, operators.OldIn:
		if len(args) == 2 {
			work = comparisons(function, args)
		}
	case operators.Add:
		// A macro that makes a list adds to it in place; everything else makes a new
		// one, which is as long as both.
		work = valueBreadth(result)
		if len(args) == 2 {
			if _, grows := args[0].(traits.MutableLister); grows {
				work = valueBreadth(args[1])
			}
		}
	case operators.Index, operators.OptIndex, operators.OptSelect:
		// Nothing is copied.
	case overloads.Matches, "find", "findAll":
		work = p.patterns.work(args, result) + valueBreadth(result)
	case "format", "indexOf", "lastIndexOf", "isSorted", "min", "max", "join", "includes":
		for _, arg := range args {
			work += estimateDeepSize(arg)
		}
		work += valueBreadth(result)
	default:
		for _, arg := range args {
			work += valueBreadth(arg)
		}
		work += valueBreadth(result)
		if len(args) == 2 && strings.HasPrefix(function, "get") {
			work += zoneCost * bytesPerCost
		}
	}
	return work
}

// comparisons is what an operator reads that compares a value with another one,
// or with each item of a list.
func comparisons(function string, args []ref.Val) uint64 {
	switch function {
	case operators.Equals, operators.NotEquals:
		return min(estimateDeepSize(args[0]), estimateDeepSize(args[1]))
	}
	if _, ok := args[1].(traits.Lister); ok {
		return estimateDeepSize(args[1])
	}
	return 0
}

// setCosts tell what the functions of sets cost, in the place of the prices
// that their library has, which do not look into the items.
func setCosts() []interpreter.CostTrackerOption {
	price := func(args []ref.Val, _ ref.Val) *uint64 {
		units := 1 + setWork(args)/bytesPerCost
		return &units
	}
	var costs []interpreter.CostTrackerOption
	for _, overload := range []string{"list_sets_contains_list", "list_sets_intersects_list", "list_sets_equivalent_list"} {
		costs = append(costs, interpreter.OverloadCostTracker(overload, price))
	}
	return costs
}

// valueBreadth is the length of a text in bytes, or of a list in items that are
// worth a unit each; 0 for other values.
func valueBreadth(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case traits.Lister:
		if size, ok := v.Size().(types.Int); ok {
			return uint64(max(0, size)) * bytesPerCost
		}
	case apiservercel.URL:
		return uint64(len(v.Path) + len(v.RawQuery))
	}
	return 0
}

// estimateDeepSize is about the size in bytes of a value with all that is in it.
func estimateDeepSize(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String, types.Bytes, apiservercel.URL:
		return valueBreadth(v)
	case traits.Lister, traits.Mapper:
		return uint64(max(0, deepSize(value.Value(), sizeMax, sizeDepthMax)))
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
		return size + sumOf(v, limit, depth)
	case []ref.Val:
		return size + sumOf(v, limit, depth)
	case []string:
		return size + sumOf(v, limit, depth)
	}
	return size
}

func sumOf[T any](items []T, limit, depth int) int {
	sum := 0
	for _, item := range items {
		if sum += deepSize(item, limit, depth-1); sum > limit {
			break
		}
	}
	return sum
}
