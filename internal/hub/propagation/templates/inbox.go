// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Queue has the objects that a controller is to look at.
type Queue = workqueue.TypedRateLimitingInterface[Key]

// Inbox takes in which objects have changed, before and after a controller runs.
// It is safe for concurrent use.
type Inbox struct {
	mu      sync.Mutex
	queue   Queue // nil before the controller runs
	waiting map[Key]bool
}

// Add says that an object has changed.
func (i *Inbox) Add(key Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.queue != nil {
		i.queue.Add(key)
		return
	}
	if i.waiting == nil {
		i.waiting = map[Key]bool{}
	}
	i.waiting[key] = true
}

// Open sends what has come in, and what comes in from now on, to a queue.
func (i *Inbox) Open(_ context.Context, q Queue) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.queue = q
	for key := range i.waiting {
		q.Add(key)
	}
	i.waiting = nil
	return nil
}
