// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"encoding/json"
	"slices"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// SameValue reports whether two values say the same: for the API server a field that is
// empty and one that is not there are often the same.
func SameValue(a, b any) bool {
	if isEmptyValue(a) || isEmptyValue(b) {
		return isEmptyValue(a) && isEmptyValue(b)
	}
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && sameFields(a, other)
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, SameValue)
	}
	n, ok := fields.Whole(a)
	m, also := fields.Whole(b)
	if ok || also {
		return ok && also && n == m
	}
	return a == b // which differ if one can be compared and the other cannot
}

// DistinctValues returns the first of all values that are the same, in their order. It looks
// at each value once.
func DistinctValues(values []any) []any {
	var distinct []any
	has := map[string]bool{}
	for _, value := range values {
		text, err := json.Marshal(canonicalValue(value))
		if err != nil || has[string(text)] { // what was not read from JSON is none of ours
			continue
		}
		has[string(text)] = true
		distinct = append(distinct, value)
	}
	return distinct
}

// canonicalValue returns a value that is equal for all values that are the same.
func canonicalValue(value any) any {
	if isEmptyValue(value) {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, field := range value {
			if !isEmptyValue(field) {
				kept[name] = canonicalValue(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, item := range value {
			kept[i] = canonicalValue(item)
		}
		return kept
	}
	if n, ok := fields.Whole(value); ok {
		return n
	}
	return value
}

func sameFields(a, b map[string]any) bool {
	for name, value := range a {
		if !SameValue(value, b[name]) {
			return false
		}
	}
	for name, value := range b {
		if _, has := a[name]; !has && !isEmptyValue(value) {
			return false
		}
	}
	return true
}

// isEmptyValue reports whether a value is like one that is not there.
func isEmptyValue(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case []any:
		return len(value) == 0
	case map[string]any:
		return sameFields(value, nil)
	}
	n, ok := fields.Whole(value)
	return ok && n == 0
}
