// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inbox tells a controller what to look at, by something that is not a watch
// of its own.
package inbox

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Queue has what a controller is to look at.
type Queue[K comparable] = workqueue.TypedRateLimitingInterface[K]

// Inbox takes in what to look at, before and after the controller runs. The zero
// value is empty. It is safe for concurrent use.
type Inbox[K comparable] struct {
	mu      sync.Mutex
	queue   Queue[K] // nil before the controller runs
	waiting map[K]bool
}

// Add says that something is to be looked at.
func (i *Inbox[K]) Add(key K) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.queue != nil {
		i.queue.Add(key)
		return
	}
	if i.waiting == nil {
		i.waiting = map[K]bool{}
	}
	i.waiting[key] = true
}

// ForwardKeys sends what has come in, and what comes in from now on, to a queue. It is a
// source of a controller.
func (i *Inbox[K]) ForwardKeys(_ context.Context, q Queue[K]) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.queue = q
	for key := range i.waiting {
		q.Add(key)
	}
	i.waiting = nil
	return nil
}
