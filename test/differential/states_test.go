// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// kind is a kind that both judge.
type kind struct {
	name       string
	apiVersion string
	// fields have the values that each can have, by its path; conditions those of
	// each type. The states are all combinations for which possible is true.
	fields      []field
	possible    func(state) bool
	differences []difference
}

// field is what an object can have at a path; nil is nothing.
type field struct {
	path   string
	values []any
}

// condition returns the field of a condition, which can be absent, or have one
// of the given statuses, with a reason after a slash.
func condition(name string, statuses ...string) field {
	f := field{path: conditionPath + name, values: []any{nil}}
	for _, status := range statuses {
		f.values = append(f.values, status)
	}
	return f
}

const conditionPath = "condition "

// difference is one on purpose.
type difference struct {
	ours, theirs health.Status
	when         func(state) bool
	reason       string
}

// state is an object with short words for what is in it.
type state struct{ object map[string]any }

func (s state) num(path string) int64 {
	return fields.IntOr(0, s.object, strings.Split(path, ".")...)
}

func (s state) text(path string) string {
	return fields.String(s.object, strings.Split(path, ".")...)
}

func (s state) has(path string) bool {
	return fields.Get(s.object, strings.Split(path, ".")...) != nil
}

func (s state) condition(name string) fields.Condition { return fields.ConditionOf(s.object, name) }

// explanation returns the number of the difference that explains one, or -1.
func (k kind) explanation(object *unstructured.Unstructured, ours, theirs health.Status) int {
	for i, d := range k.differences {
		if d.ours == ours && d.theirs == theirs && d.when(state{object.Object}) {
			return i
		}
	}
	return -1
}

// states are all that are possible.
func (k kind) states() iter.Seq[*unstructured.Unstructured] {
	return func(yield func(*unstructured.Unstructured) bool) {
		chosen := make([]any, len(k.fields))
		k.choose(0, chosen, yield)
	}
}

// choose goes through the values of the fields from the i-th on.
func (k kind) choose(i int, chosen []any, yield func(*unstructured.Unstructured) bool) bool {
	if i < len(k.fields) {
		for _, value := range k.fields[i].values {
			chosen[i] = value
			if !k.choose(i+1, chosen, yield) {
				return false
			}
		}
		return true
	}
	object := k.object(chosen)
	if k.possible != nil && !k.possible(state{object}) {
		return true
	}
	return yield(&unstructured.Unstructured{Object: object})
}

func (k kind) object(chosen []any) map[string]any {
	object := map[string]any{
		"apiVersion": k.apiVersion, "kind": k.name, "metadata": map[string]any{"name": "a", "generation": int64(2)},
	}
	var conditions []any
	for i, value := range chosen {
		path := k.fields[i].path
		name, isCondition := strings.CutPrefix(path, conditionPath)
		switch {
		case value == nil:
		case isCondition:
			status, reason, _ := strings.Cut(value.(string), "/")
			conditions = append(conditions, map[string]any{"type": name, "status": status, "reason": reason})
		default:
			set(object, runtime.DeepCopyJSONValue(value), strings.Split(path, ".")...)
		}
	}
	if conditions != nil {
		set(object, conditions, "status", "conditions")
	}
	return object
}

func set(object map[string]any, value any, path ...string) {
	for ; len(path) > 1; path = path[1:] {
		inner, ok := object[path[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[path[0]] = inner
		}
		object = inner
	}
	object[path[0]] = value
}

// numbers are the numbers up to one.
func numbers(most int64) []any {
	var list []any
	for n := range most + 1 {
		list = append(list, n)
	}
	return list
}

// some are the values, and the absence of one.
func some(values ...any) []any { return append([]any{nil}, values...) }
