// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/testing/growth"
)

// items are a list of very many items of which a field is ignored, or all of each.
type items struct {
	// key is what tells the items apart, in managedFields, by their number.
	key func(i int) string
	// item is one of the list, inside what is owned inside of it, and ignored where that is.
	item    func(i int) any
	inside  string
	ignored []any
}

// manifest is what the list is in, and paths lead to all that is ignored.
func (s items) manifest(many int) (manifest map[string]any, paths []Path) {
	list := make([]any, many)
	for i := range list {
		list[i] = s.item(i)
		paths = append(paths, append(Path{"spec", "list", i}, s.ignored...))
	}
	return map[string]any{"spec": map[string]any{"list": list}}, paths
}

func (s items) entry(many int) metav1.ManagedFieldsEntry {
	var fields strings.Builder
	for i := range many {
		fmt.Fprintf(&fields, ",%q:%s", s.key(i), s.inside)
	}
	return metav1.ManagedFieldsEntry{
		Manager: "ours", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:list":{` + fields.String()[1:] + `}}}`),
	}
}

// lists are lists whose items are told apart by keys, and by their value.
func lists() map[string]items {
	named := func(i int) any {
		return map[string]any{"name": fmt.Sprint("item-", i), "size": int64(i), "limits": map[string]any{"cpu": "1"}}
	}
	byName := func(i int) string { return fmt.Sprintf(`k:{"name":"item-%d"}`, i) }
	return map[string]items{
		"a field of each item":           {key: byName, item: named, inside: `{".":{},"f:name":{},"f:size":{}}`, ignored: []any{"size"}},
		"all that is in a field of each": {key: byName, item: named, inside: `{".":{},"f:name":{},"f:limits":{".":{},"f:cpu":{}}}`, ignored: []any{"limits", "cpu"}},
		"each item":                      {key: byName, item: named, inside: `{".":{},"f:name":{}}`},
		"each item of a list without keys": {
			key: func(i int) string { return fmt.Sprintf(`v:"item-%d"`, i) }, item: func(i int) any { return fmt.Sprint("item-", i) }, inside: `{}`,
		},
	}
}

// TestManyItemsAreGivenUp leaves to the cluster what is in very many items of a list, none of which
// is looked for among all others.
func TestManyItemsAreGivenUp(t *testing.T) {
	for name, list := range lists() {
		t.Run(name, func(t *testing.T) {
			growth.InProportion(t, 200, 16, func(many int) func() {
				manifest, paths := list.manifest(many)
				before := []metav1.ManagedFieldsEntry{list.entry(many)}
				return func() {
					rest, changed, err := DisownFields(before, func(*metav1.ManagedFieldsEntry) bool { return true }, manifest, paths, nil)
					if err != nil || !changed || len(rest) > 0 && strings.Contains(rest[0].FieldsV1.GetRawString(), `"f:size"`) {
						t.Errorf("not all of it is given up: %t, %v, %.300v", changed, err, rest)
					}
				}
			})
		})
	}
}

// TestManyItemsAreRemoved takes very many items out of a list. What comes after them is moved once.
func TestManyItemsAreRemoved(t *testing.T) {
	growth.InProportion(t, 4_000, 16, func(many int) func() {
		manifest, paths := lists()["each item of a list without keys"].manifest(2 * many)
		return func() {
			RemovePaths(manifest, paths[:many])
			if left, _ := manifest["spec"].(map[string]any)["list"].([]any); len(left) != many || left[0] != fmt.Sprint("item-", many) {
				t.Errorf("%d of %d items are left", len(left), 2*many)
			}
		}
	})
}
