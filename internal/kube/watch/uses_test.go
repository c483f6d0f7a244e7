// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/growth"
)

func TestUses(t *testing.T) {
	type use struct {
		user        string
		keys        []string
		first, last []string
	}
	for reason, test := range map[string]struct {
		uses  []use
		users map[string][]string
	}{
		"the first user begins a watch and the last ends it": {
			uses: []use{
				{user: "u", keys: []string{"a", "b"}, first: []string{"a", "b"}},
				{user: "v", keys: []string{"b", "c"}, first: []string{"c"}},
				{user: "u", keys: nil, last: []string{"a"}},
			},
			users: map[string][]string{"a": nil, "b": {"v"}, "c": {"v"}},
		},
		"the same use again changes nothing": {
			uses: []use{
				{user: "u", keys: []string{"a"}, first: []string{"a"}},
				{user: "u", keys: []string{"a"}},
			},
			users: map[string][]string{"a": {"u"}},
		},
		"a key that is named twice is used once": {
			uses: []use{
				{user: "u", keys: []string{"a", "a"}, first: []string{"a"}},
				{user: "u", keys: nil, last: []string{"a"}},
			},
			users: map[string][]string{"a": nil},
		},
		"users who use the same are told apart": {
			uses: []use{
				{user: "v", keys: []string{"a"}, first: []string{"a"}},
				{user: "u", keys: []string{"a"}},
				{user: "w", keys: []string{"b"}, first: []string{"b"}},
				{user: "v", keys: []string{"b"}},
			},
			users: map[string][]string{"a": {"u"}, "b": {"v", "w"}},
		},
		"who uses nothing and stops is nobody": {
			uses: []use{{user: "u", keys: nil}},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			var u UseCounter[string]
			for _, use := range test.uses {
				first, last := u.SetUses(use.user, use.keys...)
				if diff := cmp.Diff([][]string{use.first, use.last}, [][]string{first, last}); diff != "" {
					t.Errorf("%s uses %q: first and last, -want +got:\n%s", use.user, use.keys, diff)
				}
			}
			for key, want := range test.users {
				if diff := cmp.Diff(want, u.UsersOf(key)); diff != "" {
					t.Errorf("users of %s, -want +got:\n%s", key, diff)
				}
			}
		})
	}
}

// TestManyUsesAreCounted has a user who names very many keys, none of which is looked for among
// all the others.
func TestManyUsesAreCounted(t *testing.T) {
	growth.InProportion(t, 5_000, 16, func(many int) func() {
		keys := make([]int, many)
		for i := range keys {
			keys[i] = i
		}
		return func() {
			var u UseCounter[int]
			u.SetUses("u", keys...)
			u.SetUses("u", keys[1:]...)
		}
	})
}
