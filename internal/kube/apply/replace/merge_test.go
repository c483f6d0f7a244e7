// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/apply/owned"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestDraftDeclared replaces an object of which the managers own a map that they applied when it
// was empty: the only key of ours is retained, another manager's map is as the API says.
func TestDraftDeclared(t *testing.T) {
	t.Parallel()
	says := func(one, known bool) owned.Declared {
		return func(path fieldpath.Path, list bool) (bool, bool) {
			if list || path.String() != ".spec.limits" && path.String() != `.l[name="x"].limits` {
				t.Errorf("asked about %s, list %t", path, list)
			}
			return one, known
		}
	}
	const kept = `{"spec":{"limits":{"cpu":"1"},"size":2},"l":[{"name":"x","limits":{}}]}`
	const gone = `{"spec":{"limits":{},"size":2},"l":[{"name":"x","limits":{}}]}`
	for name, test := range map[string]struct {
		declared owned.Declared
		want     string
	}{
		"as a map with parts":              {says(false, true), kept},
		"as one value":                     {says(true, true), gone},
		"by a server that does not say it": {says(false, false), gone},
		"by nobody":                        {nil, gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := decode(t, `{"spec":{"limits":{"cpu":"1","memory":"1"},"size":1},"l":[{"name":"x","limits":{"cpu":"1"}}]}`)
			draft, err := NewDraft(live, decode(t, `{"spec":{"limits":{},"size":2},"l":[{"name":"x","limits":{}}]}`), FieldOwners{
				Managers: []metav1.ManagedFieldsEntry{
					entry("ours", applied, `{"f:spec":{"f:limits":{},"f:size":{}},"f:l":{"k:{\"name\":\"x\"}":{".":{},"f:limits":{},"f:name":{}}}}`),
				},
				Ours: isOurs, Declared: test.declared,
			}, []ignore.Path{{"spec", "limits", "cpu"}})
			expect.NoError(t, err)
			same(t, draft, test.want)
		})
	}
}

// allocated returns how many bytes a function allocates.
func allocated(do func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// TestLongPathsCostNothing has many values behind a chain of short names, and of long ones.
func TestLongPathsCostNothing(t *testing.T) {
	cost := func(nameBytes int) float64 {
		leaves := map[string]any{}
		for i := range 200 {
			leaves[fmt.Sprint(i)] = int64(1)
		}
		inside := any(leaves)
		for range 20 {
			inside = map[string]any{strings.Repeat("x", nameBytes): inside}
		}
		live := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": inside}
		manifest := map[string]any{"metadata": map[string]any{"name": "a"}}
		owners := FieldOwners{Managers: []metav1.ManagedFieldsEntry{entry("ours", applied, `{"f:data":{}}`)}, Ours: isOurs}
		return allocated(func() {
			if _, err := NewDraft(live, manifest, owners, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	cost(1) // what is allocated once
	if short, long := cost(1), cost(5000); long > 3*short {
		t.Errorf("short names take %.0f bytes, and long ones %.0f", short, long)
	}
}

// TestManyManagersCostNoMoreThanTheyOwn has one manager with many fields, and others with one each.
func TestManyManagersCostNoMoreThanTheyOwn(t *testing.T) {
	cost := func(others int) float64 {
		var many []string
		for i := range 5000 {
			many = append(many, fmt.Sprintf(`"f:%05x":{}`, i))
		}
		managers := []metav1.ManagedFieldsEntry{entry("m", updated, `{"f:data":{`+strings.Join(many, ",")+`}}`)}
		for i := range others {
			managers = append(managers, entry(fmt.Sprint("m", i), updated, fmt.Sprintf(`{"f:data":{"f:x%d":{}}}`, i)))
		}
		live := map[string]any{"metadata": map[string]any{"name": "a"}}
		return allocated(func() {
			if _, err := NewDraft(live, live, FieldOwners{Managers: managers, Ours: isOurs}, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	cost(1)
	if few, more := cost(15), cost(127); more > 3*few {
		t.Errorf("of 15 managers it takes %.0f bytes, and of 127 %.0f", few, more)
	}
}
