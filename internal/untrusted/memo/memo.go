// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memo remembers what was made of texts that others write. It is bounded by
// the length of the texts: their number says nothing of the memory that they take, as
// whoever may write a few hundred can make each of them a megabyte long.
package memo

import (
	"crypto/sha256"
	"sync"
)

// entryBytes is what anything that is remembered counts besides its text.
const entryBytes = 512

// Memo remembers what was made of texts, and not the texts. It is safe for concurrent
// use.
type Memo[V any] struct {
	most int

	mu   sync.Mutex
	made map[[sha256.Size]byte]V
	left int
}

// NewMemo returns a Memo for texts of so many bytes together. What is made of a text has to
// be bounded by its length. Once they are more, all is forgotten: what is needed comes
// again soon.
func NewMemo[V any](bytesMax int) *Memo[V] {
	return &Memo[V]{most: bytesMax, made: map[[sha256.Size]byte]V{}, left: bytesMax}
}

// Get returns what was made of a text, if it is remembered.
func (m *Memo[V]) Get(text string) (made V, known bool) {
	key := sha256.Sum256([]byte(text))
	m.mu.Lock()
	defer m.mu.Unlock()
	made, known = m.made[key]
	return made, known
}

// StoreIfAbsent remembers what was made of a text, and returns it, or what somebody else has
// made of it meanwhile. A text that takes a large part of the memory is not remembered:
// it would drive out what many need.
func (m *Memo[V]) StoreIfAbsent(text string, made V) V {
	key := sha256.Sum256([]byte(text))
	size := len(text) + entryBytes
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, is := m.made[key]; is {
		return known
	}
	if size > m.most/4 {
		return made
	}
	if m.left < size {
		clear(m.made)
		m.left = m.most
	}
	m.made[key] = made
	m.left -= size
	return made
}
