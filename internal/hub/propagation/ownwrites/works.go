// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/written"
)

// CreatedWorks are the works that were created lately, so that who reads a cache that does
// not show them yet does not create them again. It is safe for concurrent use.
type CreatedWorks struct {
	mu      sync.Mutex
	unshown *written.RecentWrites[types.NamespacedName, struct{}]
}

// NewCreatedWorks returns CreatedWorks without any.
func NewCreatedWorks(clk clock.PassiveClock) *CreatedWorks {
	return &CreatedWorks{unshown: written.NewRecentWrites[types.NamespacedName, struct{}](clk, written.BehindMax)}
}

// BeginCreate notes that a work is being created; false if it was already.
func (w *CreatedWorks) BeginCreate(work types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, already := w.unshown.FindWrite(work); already {
		return false
	}
	w.unshown.RecordWrite(work, struct{}{})
	return true
}

// IsAwaited reports whether works of the name were created that the cache may not show
// yet.
func (w *CreatedWorks) IsAwaited(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unshown.HasWriteOf(func(work types.NamespacedName) bool { return work.Name == name })
}

// ForgetWork notes that a work was not created, has been seen in the cache, or has been
// deleted.
func (w *CreatedWorks) ForgetWork(work types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unshown.ForgetWrite(work)
}
