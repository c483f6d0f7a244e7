// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// TreeKept expects an object to have all that it should have. It may have more, such as
// defaults, but lists are as long as they were.
func TreeKept(t testing.TB, what string, want, got map[string]any) {
	t.Helper()
	for _, difference := range lostFields("", want, got) {
		t.Errorf("%s: %s", what, difference)
	}
}

// lostFields returns where a tree does not have what another has.
func lostFields(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			break
		}
		var all []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, there := object[name]
			if !there {
				all = append(all, fmt.Sprintf("%s.%s is lost", path, name))
				continue
			}
			all = append(all, lostFields(path+"."+name, want[name], value)...)
		}
		return all
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			break
		}
		var all []string
		for i := range want {
			all = append(all, lostFields(fmt.Sprintf("%s[%d]", path, i), want[i], list[i])...)
		}
		return all
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v, and was %v", path, got, want)}
}
