// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// UseCounter counts who uses which watch. The zero value has no user. It is not safe
// for concurrent use: owners have a lock of their own for what they keep.
type UseCounter[K comparable] struct {
	users map[K]int
	uses  map[string][]K
	// recent is what one of the users uses: most use the same, and share it.
	recent []K
}

// SetUses makes the keys all that the user uses. It returns those that nobody used
// before, in their order, and those that nobody uses any more.
func (u *UseCounter[K]) SetUses(user string, keys ...K) (first, last []K) {
	if u.users == nil {
		u.users = map[K]int{}
		u.uses = map[string][]K{}
	}
	var wanted []K
	wants := sets.New[K]()
	used := sets.New(u.uses[user]...)
	for _, key := range keys {
		if wants.Has(key) {
			continue
		}
		wants.Insert(key)
		wanted = append(wanted, key)
		if used.Has(key) {
			continue
		}
		if u.users[key] == 0 {
			first = append(first, key)
		}
		u.users[key]++
	}
	for _, key := range u.uses[user] {
		if wants.Has(key) {
			continue
		}
		u.users[key]--
		if u.users[key] == 0 {
			delete(u.users, key)
			last = append(last, key)
		}
	}
	if len(wanted) == 0 {
		delete(u.uses, user)
		return first, last
	}
	if !slices.Equal(wanted, u.recent) {
		u.recent = wanted
	}
	u.uses[user] = u.recent
	return first, last
}

// UsersOf returns who uses a watch, sorted.
func (u *UseCounter[K]) UsersOf(key K) []string {
	var users []string
	for user, used := range u.uses {
		if slices.Contains(used, key) {
			users = append(users, user)
		}
	}
	slices.Sort(users)
	return users
}
