// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"sync"
	"time"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// Requests are the objects that were asked to go. The zero value is none. It
// is safe for concurrent use.
type Requests struct {
	mu sync.Mutex
	at map[apply.Object]time.Time
}

// Fresh tells whether the object was asked to go a moment ago.
func (r *Requests) Fresh(object apply.Object, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[object]
	return ok && now.Sub(at) < askAgain
}

// Note notes that the object was asked to go.
func (r *Requests) Note(object apply.Object, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[apply.Object]time.Time{}
	}
	r.at[object] = now
}

// Keep forgets all objects but those that the function says are still there.
func (r *Requests) Keep(there func(apply.Object) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.at, func(object apply.Object, _ time.Time) bool { return !there(object) })
}
