// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/apply/ignore"
	"github.com/capstan-io/capstan/internal/apply/owned"
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
			draft, err := New(live, decode(t, `{"spec":{"limits":{},"size":2},"l":[{"name":"x","limits":{}}]}`), Owners{
				Managers: []metav1.ManagedFieldsEntry{
					entry("ours", applied, `{"f:spec":{"f:limits":{},"f:size":{}},"f:l":{"k:{\"name\":\"x\"}":{".":{},"f:limits":{},"f:name":{}}}}`),
				},
				Ours: isOurs, Declared: test.declared,
			}, []ignore.Path{{"spec", "limits", "cpu"}})
			if err != nil {
				t.Fatal(err)
			}
			same(t, draft, test.want)
		})
	}
}
