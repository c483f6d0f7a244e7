// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields reads values from objects as they are decoded from JSON:
// map[string]any, []any, string, bool, int64 and float64. A value that is not
// there and a value of another type are the same to it, so that no object,
// however odd, makes a reader fail.
package fields

import (
	"maps"

	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
)

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
func Whole(value any) (int64, bool) { return jsonpath.WholeNumber(value) }

// With returns an object like this one with another value at a path. The two
// share all that is the same. What is in the way and is no object is replaced.
func With(object map[string]any, value any, path ...string) map[string]any {
	if len(path) == 0 {
		return object
	}
	changed := maps.Clone(object)
	if changed == nil {
		changed = map[string]any{}
	}
	if len(path) > 1 {
		value = With(Map(object, path[0]), value, path[1:]...)
	}
	changed[path[0]] = value
	return changed
}

// Without returns an object like this one without the value at a path. The two
// share all that is the same. An object that has nothing left stays.
func Without(object map[string]any, path ...string) map[string]any {
	if len(path) == 0 {
		return object
	}
	value, has := object[path[0]]
	if !has {
		return object
	}
	if len(path) > 1 {
		inner, ok := value.(map[string]any)
		if !ok {
			return object
		}
		return With(object, Without(inner, path[1:]...), path[0])
	}
	changed := maps.Clone(object)
	delete(changed, path[0])
	return changed
}

// Only returns an object with those values of another that have one of the
// names; nil if there are none.
func Only(object map[string]any, names ...string) map[string]any {
	var some map[string]any
	for _, name := range names {
		if value, has := object[name]; has {
			if some == nil {
				some = map[string]any{}
			}
			some[name] = value
		}
	}
	return some
}
