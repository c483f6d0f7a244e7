// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatAnObjectNeedsHasLimits follows references by name: the object of a name
// needs those that the case lists.
func TestWhatAnObjectNeedsHasLimits(t *testing.T) {
	many := make([]string, foundMax+1)
	for i := range many {
		many[i] = fmt.Sprintf("c%d", i)
	}
	cases := map[string]struct {
		reason string
		needs  map[string][]string
		want   int
		left   string
	}{
		"nothing":           {"it needs nothing", nil, 0, ""},
		"a circle":          {"each is found once", map[string][]string{"root": {"a"}, "a": {"b"}, "b": {"a"}}, 2, ""},
		"as deep as can be": {"three levels are followed", map[string][]string{"root": {"a"}, "a": {"b"}, "b": {"c"}}, 3, ""},
		"too deep": {
			"what is left out is named",
			map[string][]string{"root": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"d"}},
			3,
			`ConfigMap "d" is not sent along: the object needs it through 3 others`,
		},
		"as many as can be": {"all are found", map[string][]string{"root": many[:foundMax]}, foundMax, ""},
		"too many":          {"the first that is left out is named", map[string][]string{"root": many}, foundMax, `ConfigMap "c200" is not sent along, nor is what follows: the object needs more than 200 others`},
	}
	object := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(name)
		return o
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			direct := func(o *unstructured.Unstructured) ([]Reference, error) {
				var all []Reference
				for _, needed := range c.needs[o.GetName()] {
					all = append(all, Reference{APIVersion: "v1", Kind: "ConfigMap", Name: needed})
				}
				return all, nil
			}
			all, left, err := ResolveClosure(object("root"), direct, func(r Reference) (*unstructured.Unstructured, error) { return object(r.Name), nil })
			if err != nil || len(all) != c.want || !strings.HasPrefix(left, c.left) || (left == "") != (c.left == "") {
				t.Errorf("%s: %d are found, left out is %q, and the error is %v", c.reason, len(all), left, err)
			}
		})
	}
	broken := errors.New("the hub does not answer")
	_, _, err := ResolveClosure(object("root"), func(*unstructured.Unstructured) ([]Reference, error) { return []Reference{{Name: "a"}}, nil },
		func(Reference) (*unstructured.Unstructured, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if _, _, err = ResolveClosure(object("root"), func(*unstructured.Unstructured) ([]Reference, error) { return nil, broken }, nil); !errors.Is(err, broken) {
		t.Errorf("nobody knows what it needs, and the error is %v", err)
	}
}
