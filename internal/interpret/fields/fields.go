// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields reads values from objects as they are decoded from JSON:
// map[string]any, []any, string, bool, int64 and float64. A value that is not
// there and a value of another type are the same to it, so that no object,
// however odd, makes a reader fail.
package fields

import "github.com/capstan-io/capstan/internal/jsonpath"

// Get returns the value at a path, nil if there is none.
func Get(object map[string]any, path ...string) any {
	if len(path) == 0 {
		return nil
	}
	last := len(path) - 1
	for _, key := range path[:last] {
		next, ok := object[key].(map[string]any)
		if !ok {
			return nil
		}
		object = next
	}
	return object[path[last]]
}

// Map returns the object at a path, nil if there is none.
func Map(object map[string]any, path ...string) map[string]any {
	value, _ := Get(object, path...).(map[string]any)
	return value
}

// List returns the list at a path, nil if there is none.
func List(object map[string]any, path ...string) []any {
	value, _ := Get(object, path...).([]any)
	return value
}

// String returns the text at a path, "" if there is none.
func String(object map[string]any, path ...string) string {
	value, _ := Get(object, path...).(string)
	return value
}

// Bool returns the boolean at a path, false if there is none.
func Bool(object map[string]any, path ...string) bool {
	value, _ := Get(object, path...).(bool)
	return value
}

// Int returns the whole number at a path, and whether there is one.
func Int(object map[string]any, path ...string) (int64, bool) {
	return Whole(Get(object, path...))
}

// IntOr returns the whole number at a path, and otherwise if there is none.
func IntOr(otherwise int64, object map[string]any, path ...string) int64 {
	if value, ok := Int(object, path...); ok {
		return value
	}
	return otherwise
}

// Whole returns a value as a whole number, and whether it is one.
func Whole(value any) (int64, bool) { return jsonpath.Whole(value) }
