// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestKeysAreLookedAtByTurns has many keys of one namespace, each of which takes a second, and
// then one of another.
func TestKeysAreLookedAtByTurns(t *testing.T) {
	const many = 100
	namespace := func(key string) string { return strings.Split(key, "/")[0] }
	now := time.Unix(1_000_000, 0)
	var got []string
	var a *AsideKeys[string]
	a = NewAsideKeys(namespace, func(_ Queue[string], key string) {
		got = append(got, key)
		now = now.Add(time.Second)
		if len(got) == 1 {
			a.NoteKey(key) // what happens meanwhile has it looked at again
		}
	})
	a.now = func() time.Time { return now }
	for n := range many {
		a.NoteKey(fmt.Sprint("slow/", n))
		a.NoteKey(fmt.Sprint("slow/", n)) // it waits already
	}
	a.NoteKey("other/0")
	for a.FollowKey(nil) {
		continue
	}
	if at := slices.Index(got, "other/0"); at < 0 || at > 1 {
		t.Errorf("the key of another namespace is in place %d", at)
	}
	if len(got) != many+2 {
		t.Errorf("%d keys are looked at, want %d and one of them again", len(got), many+1)
	}
	if len(a.waiting)+a.turns.Waiting()+len(a.has) > 0 {
		t.Errorf("%v, %v and %v are remembered", a.waiting, a.turns, a.has)
	}
}
