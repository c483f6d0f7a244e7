// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

type m = map[string]any

func TestAnObjectWithAndWithoutAValue(t *testing.T) {
	t.Parallel()
	object := func() m { return m{"a": m{"b": m{"c": "d"}}, "e": "f"} }
	given := object()
	for name, test := range map[string]struct{ got, want m }{
		"another value":              {fields.With(given, 1, "a", "b", "c"), m{"a": m{"b": m{"c": 1}}, "e": "f"}},
		"a new value":                {fields.With(given, 1, "g", "h"), m{"a": m{"b": m{"c": "d"}}, "e": "f", "g": m{"h": 1}}},
		"what is in the way":         {fields.With(given, 1, "e", "h"), m{"a": m{"b": m{"c": "d"}}, "e": m{"h": 1}}},
		"nothing there":              {fields.With(nil, 1, "a", "b"), m{"a": m{"b": 1}}},
		"with nothing":               {fields.With(given, 1), object()},
		"without a value":            {fields.Without(given, "a", "b", "c"), m{"a": m{"b": m{}}, "e": "f"}},
		"without a value at the top": {fields.Without(given, "a"), m{"e": "f"}},
		"without what is not there":  {fields.Without(given, "a", "x", "c"), object()},
		"without what is in a text":  {fields.Without(given, "e", "x"), object()},
		"without nothing":            {fields.Without(given), object()},
		"nothing without a value":    {fields.Without(nil, "a", "b"), nil},
		"only some":                  {fields.Only(given, "e", "x"), m{"e": "f"}},
		"only what is not there":     {fields.Only(given, "x"), nil},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff(object(), given); diff != "" {
		t.Errorf("the object itself was changed: %s", diff)
	}
}
