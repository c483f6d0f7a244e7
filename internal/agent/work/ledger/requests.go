// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"sync"
	"time"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// DeletionRequests are the objects that were asked to go. The zero value is none. It
// is safe for concurrent use.
type DeletionRequests struct {
	mu sync.Mutex
	at map[apply.ObjectRef]time.Time
}

// WasRequestedLately reports whether the object was asked to go a moment ago.
func (r *DeletionRequests) WasRequestedLately(object apply.ObjectRef, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[object]
	return ok && now.Sub(at) < askAgain
}

// NoteRequest notes that the object was asked to go.
func (r *DeletionRequests) NoteRequest(object apply.ObjectRef, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[apply.ObjectRef]time.Time{}
	}
	r.at[object] = now
}

// RetainOnly forgets all objects but those that the function says are still there.
func (r *DeletionRequests) RetainOnly(there func(apply.ObjectRef) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.at, func(object apply.ObjectRef, _ time.Time) bool { return !there(object) })
}
