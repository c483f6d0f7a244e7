// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/growth"
)

func entryOf(fields string) *metav1.ManagedFieldsEntry {
	return &metav1.ManagedFieldsEntry{Manager: "m", FieldsV1: metav1.NewFieldsV1(fields)}
}

// TestFields reads what API servers write, and the same in another order.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{
		`{}`, `{"f:a":{},"f:b":{}}`, `{"f:b":{},"f:a":{}}`, `{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}}}`, `{"f:c":{"f:d":{}},"f:a":{"f:b":{},".":{}}}`,
		`{"f:l":{"k:{\"n\":80}":{".":{},"f:n":{}},"k:{\"n\":9}":{}},"f:s":{"v:\"x\"":{},"v:\"a\"":{}}}`, `{"x:new":{"f:a":{}},"f:b":{}}`, `{"i:1":{}}`,
	} {
		want := &fieldpath.Set{}
		if err := want.FromJSON(strings.NewReader(fields)); err != nil {
			t.Fatalf("%s: %v", fields, err)
		}
		got, err := DecodeManagedFields(entryOf(fields))
		if err != nil || !got.Equals(want) {
			t.Errorf("%s: got %s, want %s: %v", fields, got, want, err)
		}
	}
	for _, fields := range []string{`{`, `[]`, `{"f:a":1}`, `{"a":{}}`, `{} {}`, `{"k:{":{}}`} {
		if set, err := DecodeManagedFields(entryOf(fields)); err == nil {
			t.Errorf("%s: got %s", fields, set)
		}
	}
}

// TestTheOrderOfFieldsCostsNothing shows that fields in the reverse order do not take the
// square of their number, which is half an hour for what an answer of a member may have.
func TestTheOrderOfFieldsCostsNothing(t *testing.T) {
	growth.InProportion(t, 2_500, 16, func(many int) func() {
		names := make([]string, 0, many)
		for i := range many {
			names = append(names, fmt.Sprintf(`"f:%06d":{}`, i))
		}
		slices.Reverse(names)
		entry := entryOf(`{` + strings.Join(names, ",") + `}`)
		return func() {
			if set, err := DecodeManagedFields(entry); err != nil || set.Size() != many {
				t.Error(set.Size(), err)
			}
		}
	})
}

// TestFieldsAreNotNestedForEver shows that nobody keeps long paths to many fields.
func TestFieldsAreNotNestedForEver(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat(`{"f:a":`, depth) + `{}` + strings.Repeat(`}`, depth) }
	if _, err := DecodeManagedFields(entryOf(nested(depthMax))); err != nil {
		t.Error(err)
	}
	if _, err := DecodeManagedFields(entryOf(nested(9_000))); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("got %v", err)
	}
}

func TestElements(t *testing.T) {
	const ports = `{"k:{\"port\":53,\"protocol\":\"TCP\"}":{},"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{}},"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:port":{}}}`
	const one = `{"k:{\"a\":1,\"b\":2}":{}}`
	for name, test := range map[string]struct {
		fields string
		item   any
		want   []string
	}{
		"all keys":                         {ports, map[string]any{"port": int64(53), "protocol": "UDP"}, []string{`[port=53,protocol="UDP"]`}},
		"a key less, whose default is TCP": {ports, map[string]any{"port": int64(53)}, []string{`[port=53,protocol="TCP"]`}},
		"another key":                      {ports, map[string]any{"port": int64(81)}, nil},
		"a key less, of an API of others":  {one, map[string]any{"a": int64(1)}, []string{`[a=1,b=2]`}},
		"no key, and it can be no other":   {one, map[string]any{"c": int64(1)}, []string{`[a=1,b=2]`}},
		"no key, and it can be any":        {`{"k:{\"a\":1}":{},"k:{\"a\":2}":{}}`, map[string]any{"c": int64(1)}, nil},
		"no item":                          {one, nil, nil},
		"a value":                          {`{"v:\"x\"":{},"v:1":{}}`, "x", []string{`[="x"]`}},
		"a value, written in another way":  {`{"v:\"x\"":{},"v:1":{}}`, float64(1), []string{`[=1]`}},
		"another value":                    {`{"v:\"x\"":{}}`, "y", nil},
		"a list that is one value":         {`{}`, "x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := DecodeManagedFields(entryOf(test.fields))
			expect.NoError(t, err)
			var got []string
			for _, element := range ElementsOf(set).ElementsFor(test.item) {
				got = append(got, fieldpath.Path{element}.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
