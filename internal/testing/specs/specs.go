// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package specs reads specs that tests write as YAML, with a field and without it: the
// difference in what comes of them is what the field does.
package specs

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ParseSpec returns the spec that a text describes. It may have no other fields than those
// of its type.
func ParseSpec[Spec any](t *testing.T, text string) Spec {
	t.Helper()
	return unmarshalSpec[Spec](t, []byte(text))
}

// ParseWithout returns the spec that a text describes, without the field at a path such as
// "tolerations[0].key", which the text has to set. A path that ends with a place in
// a list takes that element out.
func ParseWithout[Spec any](t *testing.T, text, path string) Spec {
	t.Helper()
	var spec any
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	removeField(t, spec, strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }))
	rest, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return unmarshalSpec[Spec](t, rest)
}

func unmarshalSpec[Spec any](t *testing.T, text []byte) Spec {
	t.Helper()
	var spec Spec
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// removeField removes a field that has to be there.
func removeField(t *testing.T, value any, path []string) {
	t.Helper()
	for n, step := range path {
		switch v := value.(type) {
		case map[string]any:
			next, set := v[step]
			if !set {
				t.Fatalf("the spec does not set %v", path)
			}
			if n == len(path)-1 {
				delete(v, step)
				return
			}
			if list, ok := next.([]any); ok && n == len(path)-2 { // the path ends with a place in it
				at := placeIn(t, list, path[n+1])
				v[step] = slices.Delete(list, at, at+1)
				return
			}
			value = next
		case []any:
			value = v[placeIn(t, v, step)]
		default:
			t.Fatalf("the spec does not set %v", path)
		}
	}
}

func placeIn(t *testing.T, list []any, step string) int {
	t.Helper()
	at, err := strconv.Atoi(step)
	if err != nil || at < 0 || at >= len(list) {
		t.Fatalf("the spec has no element %s in a list of %d", step, len(list))
	}
	return at
}
