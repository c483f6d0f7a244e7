// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubprobe

import (
	"sync"

	"github.com/capstan-io/capstan/internal/operator/probe"
)

// Result has the outcome for both credentials. That for bootstrap is not
// renewed while the hub's own credential is functional.
type Result struct {
	Bootstrap, Hub probe.Outcome
}

// Results keeps the last result of each Klusterlet. It is safe for concurrent use.
type Results struct {
	mu    sync.Mutex
	known map[string]Result
}

// NewResults returns an empty Results.
func NewResults() *Results {
	return &Results{known: map[string]Result{}}
}

// Get returns the last result; nothing is known in it if there is none.
func (r *Results) Get(klusterlet string) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[klusterlet]
}

// set tells whether the result is another than before.
func (r *Results) set(klusterlet string, result Result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.known[klusterlet] != result
	r.known[klusterlet] = result
	return changed
}

func (r *Results) forget(klusterlet string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, klusterlet)
}
