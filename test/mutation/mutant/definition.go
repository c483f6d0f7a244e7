// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Schema is how the names of mutants begin that change the definition of a kind, and
// not the code: Schema, the kind, a space, and the path of the field.
const Schema = "schema:"

// Definition stands for reading the definition of a kind. Its mutant lacks a field, so
// that the API server drops it; or, with Other, takes everything in the field.
func Definition(content []byte, err error) ([]byte, error) {
	kind, path, _ := strings.Cut(strings.TrimPrefix(state().on, Schema), " ")
	if err != nil || !strings.HasPrefix(state().on, Schema) {
		return content, err
	}
	definition := map[string]any{}
	if err := yaml.Unmarshal(content, &definition); err != nil {
		return nil, fmt.Errorf("decoding a definition to mutate it: %w", err)
	}
	named := inside(definition, "spec", "names")["kind"]
	if named != kind && named != "Cluster"+kind {
		return content, nil
	}
	versions, _ := inside(definition, "spec")["versions"].([]any)
	for _, version := range versions {
		if v, ok := version.(map[string]any); ok && changeField(inside(v, "schema", "openAPIV3Schema"), strings.Split(path, ".")) {
			isOn(state().on)
		}
	}
	return yaml.Marshal(definition)
}

// changeField changes the schema of a field below an object, or the items of a list, and
// takes away the rules of all around it that are about it. It reports whether there is
// such a field.
func changeField(of map[string]any, path []string) bool {
	name := strings.TrimSuffix(path[0], "[]")
	for items := inside(of, "items"); len(items) > 0; items = inside(of, "items") {
		of = items
	}
	withoutRules(of, strings.TrimSuffix(path[len(path)-1], "[]"))
	properties := inside(of, "properties")
	field, ok := properties[name].(map[string]any)
	if !ok {
		return false
	}
	if len(path) > 1 {
		return changeField(field, path[1:])
	}
	without(of, "required", func(r any) bool { return r == name })
	if state().value == Other {
		maps.DeleteFunc(field, func(string, any) bool { return true })
		field["x-kubernetes-preserve-unknown-fields"] = true
		return true
	}
	delete(properties, name)
	return true
}

// withoutRules removes the rules that are about a field.
func withoutRules(of map[string]any, field string) {
	without(of, "x-kubernetes-validations", func(rule any) bool {
		r, _ := rule.(map[string]any)
		text, _ := r["rule"].(string)
		return strings.Contains(text, field)
	})
}

// without removes items of a list, and the list if it has no others.
func without(of map[string]any, list string, item func(any) bool) {
	items, _ := of[list].([]any)
	items = slices.DeleteFunc(items, item)
	if of[list] = items; len(items) == 0 {
		delete(of, list)
	}
}

// inside returns the object at a path of keys; one that is empty if there is none.
func inside(of map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		of, _ = of[key].(map[string]any)
	}
	return of
}
