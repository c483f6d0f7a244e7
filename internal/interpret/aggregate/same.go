// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"encoding/json"
	"slices"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// Same tells whether two values say the same: for the API server a field that is
// empty and one that is not there are often the same.
func Same(a, b any) bool {
	if empty(a) || empty(b) {
		return empty(a) && empty(b)
	}
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && sameFields(a, other)
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, Same)
	}
	n, ok := fields.Whole(a)
	m, also := fields.Whole(b)
	if ok || also {
		return ok && also && n == m
	}
	return a == b // which differ if one can be compared and the other cannot
}

// Distinct returns the first of all values that are the same, in their order. It looks
// at each value once.
func Distinct(values []any) []any {
	var distinct []any
	has := map[string]bool{}
	for _, value := range values {
		text, err := json.Marshal(essence(value))
		if err != nil || has[string(text)] { // what was not read from JSON is none of ours
			continue
		}
		has[string(text)] = true
		distinct = append(distinct, value)
	}
	return distinct
}

// essence returns a value that is equal for all values that are the same.
func essence(value any) any {
	if empty(value) {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, field := range value {
			if !empty(field) {
				kept[name] = essence(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, item := range value {
			kept[i] = essence(item)
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
		if !Same(value, b[name]) {
			return false
		}
	}
	for name, value := range b {
		if _, has := a[name]; !has && !empty(value) {
			return false
		}
	}
	return true
}

// empty tells whether a value is like one that is not there.
func empty(value any) bool {
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
