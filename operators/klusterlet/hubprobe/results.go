// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubprobe

import (
	"sync"

	"github.com/capstan-io/capstan/internal/operator/probe"
)

// ProbeResult has the outcome for both credentials. That for bootstrap is not
// renewed while the hub's own credential is functional.
type ProbeResult struct {
	Bootstrap, Hub probe.CheckOutcome
}

// ResultStore keeps the last result of each Klusterlet. It is safe for concurrent use.
type ResultStore struct {
	mu    sync.Mutex
	known map[string]ProbeResult
}

// NewResultStore returns an empty ResultStore.
func NewResultStore() *ResultStore {
	return &ResultStore{known: map[string]ProbeResult{}}
}

// LastResult returns the last result; nothing is known in it if there is none.
func (r *ResultStore) LastResult(klusterlet string) ProbeResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[klusterlet]
}

// recordResult reports whether the result is another than before.
func (r *ResultStore) recordResult(klusterlet string, result ProbeResult) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.known[klusterlet] != result
	r.known[klusterlet] = result
	return changed
}

func (r *ResultStore) forgetResult(klusterlet string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, klusterlet)
}
