// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsonpath contains the shared semantics of JSONPath: how values are
// compared, and which items of a list an index selects. Feedback looks for
// values, and fields to ignore for places, each within limits of its own; so
// how they walk is theirs.
//
// Values are as they are decoded from JSON: map[string]any, []any, string,
// bool, int64, float64 and nil.
package jsonpath

import (
	"cmp"
	"math"

	"k8s.io/client-go/util/jsonpath"
)

// integersMax is the greatest whole number up to which each has its own
// float64.
const integersMax = 1 << 53

// ComparisonHolds reports whether a comparison of a filter (==, !=, <, <=, >, >=) is true,
// and whether the values have an order. Those that have none, as they are of
// different types, or lists or objects, are different, and nothing else.
func ComparisonHolds(left any, operator string, right any) (holds, ordered bool) {
	order, ordered := CompareValues(left, right)
	if !ordered {
		return operator == "!=", false
	}
	switch operator {
	case "==":
		return order == 0, true
	case "!=":
		return order != 0, true
	case "<":
		return order < 0, true
	case "<=":
		return order <= 0, true
	case ">":
		return order > 0, true
	case ">=":
		return order >= 0, true
	}
	return false, true
}

// CompareValues orders two texts, two numbers or two booleans, false first, and tells
// whether there is such an order. Null is the same as null. Whole numbers are
// compared exactly.
func CompareValues(left, right any) (order int, ordered bool) {
	if l, ok := left.(string); ok {
		r, ok := right.(string)
		return cmp.Compare(l, r), ok
	}
	if l, ok := left.(bool); ok {
		r, ok := right.(bool)
		return cmp.Compare(boolRank(l), boolRank(r)), ok
	}
	if left == nil && right == nil {
		return 0, true
	}
	l, lok := WholeNumber(left)
	r, rok := WholeNumber(right)
	if lok && rok {
		return cmp.Compare(l, r), true
	}
	lf, lok := asFloat(left)
	rf, rok := asFloat(right)
	return cmp.Compare(lf, rf), lok && rok
}

// WholeNumber returns a value as a whole number, and whether it is one. It takes
// what decoders and tests make of numbers; a float64 counts if it has no
// fraction and is exact.
func WholeNumber(value any) (int64, bool) {
	switch number := value.(type) {
	case int64:
		return number, true
	case int:
		return int64(number), true
	case int32:
		return int64(number), true
	case float64:
		if number == math.Trunc(number) && math.Abs(number) <= integersMax {
			return int64(number), true
		}
	}
	return 0, false
}

func asFloat(value any) (float64, bool) {
	if whole, ok := WholeNumber(value); ok {
		return float64(whole), true
	}
	number, ok := value.(float64)
	return number, ok
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// IndexBounds returns the indices [first, end) that an index such as [1], [-1] or
// [1:3] means, cut to those that a list of the length has. A single index that
// the list does not have gives an empty range.
func IndexBounds(node *jsonpath.ArrayNode, length int) (first, end int) {
	end = length
	if node.Params[0].Known {
		if first = node.Params[0].Value; first < 0 {
			first += length
		}
	}
	if node.Params[1].Known {
		end = node.Params[1].Value
		if end < 0 || end == 0 && node.Params[1].Derived {
			end += length
		}
	}
	if single := node.Params[1].Derived; single && (first < 0 || first >= length) {
		return 0, 0
	}
	return min(max(first, 0), length), min(max(end, 0), length)
}

// TypeName returns what a value is, in words for the author of a path.
func TypeName(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	}
	return "a number"
}
