// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
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
		got, err := Fields(entryOf(fields))
		if err != nil || !got.Equals(want) {
			t.Errorf("%s: got %s, want %s: %v", fields, got, want, err)
		}
	}
	for _, fields := range []string{`{`, `[]`, `{"f:a":1}`, `{"a":{}}`, `{} {}`, `{"k:{":{}}`} {
		if set, err := Fields(entryOf(fields)); err == nil {
			t.Errorf("%s: got %s", fields, set)
		}
	}
}

// TestTheOrderOfFieldsCostsNothing shows that fields in the reverse order do not take the
// square of their number, which is half an hour for what an answer of a member may have.
func TestTheOrderOfFieldsCostsNothing(t *testing.T) {
	const few, many = 2_500, 40_000 // 16 times as many, whose square is 256 times as much
	fastest := func(n int) time.Duration {
		names := make([]string, 0, n)
		for i := range n {
			names = append(names, fmt.Sprintf(`"f:%06d":{}`, i))
		}
		slices.Reverse(names)
		entry := entryOf(`{` + strings.Join(names, ",") + `}`)
		least := time.Duration(math.MaxInt64)
		for range 3 {
			begun := time.Now()
			if set, err := Fields(entry); err != nil || set.Size() != n {
				t.Fatal(set.Size(), err)
			}
			least = min(least, time.Since(begun))
		}
		return least
	}
	if short, long := fastest(few), fastest(many); long > 100*short {
		t.Errorf("%d fields take %v, and %d take %v", few, short, many, long)
	}
}

// TestFieldsAreNotNestedForEver shows that nobody keeps long paths to many fields.
func TestFieldsAreNotNestedForEver(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat(`{"f:a":`, depth) + `{}` + strings.Repeat(`}`, depth) }
	if _, err := Fields(entryOf(nested(depthMax))); err != nil {
		t.Error(err)
	}
	if _, err := Fields(entryOf(nested(9_000))); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("got %v", err)
	}
}
