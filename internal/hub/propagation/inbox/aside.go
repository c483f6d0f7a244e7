// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import "context"

// AsideKeys has keys looked at, one after the other, by what takes too long for whoever tells of
// them. Namespaces have their turns, as those of ChangeQueue.
type AsideKeys[K comparable] struct {
	pendingWork[K]

	namespace func(K) string
	look      func(Queue[K], K)
	has       map[K]bool // those that wait
}

// NewAsideKeys returns what has keys, which are of namespaces, looked at. Look may add them to the
// queue.
func NewAsideKeys[K comparable](namespace func(K) string, look func(Queue[K], K)) *AsideKeys[K] {
	return &AsideKeys[K]{pendingWork: newPendingWork[K](), namespace: namespace, look: look, has: map[K]bool{}}
}

// NoteKey has a key looked at. It returns at once.
func (a *AsideKeys[K]) NoteKey(key K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.has[key] {
		a.has[key] = true
		a.putWaiting(a.namespace(key), key)
	}
}

// Open has keys looked at as long as the controller of the queue runs.
func (a *AsideKeys[K]) Open(ctx context.Context, q Queue[K]) error {
	a.followNews(ctx, func() bool { return a.FollowKey(q) })
	return nil
}

// FollowKey has the key looked at whose turn it is. It is false if there is none. It is called by
// one goroutine at a time.
func (a *AsideKeys[K]) FollowKey(q Queue[K]) bool {
	key, is := a.nextKey()
	if !is {
		return false
	}
	begun := a.now()
	a.look(q, key)
	a.endTurn(a.namespace(key), begun)
	return true
}

// nextKey takes out the key whose turn it is: what happens from now on has it looked at again.
func (a *AsideKeys[K]) nextKey() (key K, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, is = a.takeNext()
	delete(a.has, key)
	return key, is
}
