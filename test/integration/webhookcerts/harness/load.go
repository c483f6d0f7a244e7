// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// loadClients is how many clients write at a time.
const loadClients = 4

// load are clients that write ManagedClusters without a pause.
type load struct {
	// Done counts the requests that got through the webhooks.
	Done atomic.Int64
	// from is the count at the begin of the present step.
	from int64

	mutex  sync.Mutex
	failed []error
}

// StartLoad starts the clients, until the test ends.
func (h *hub) StartLoad(t testing.TB) *load {
	t.Helper()
	l := &load{}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for worker := range loadClients {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.note(ctx, writeOnce(ctx, h.client, fmt.Sprintf("cluster-%d-%d", worker, i)))
			}
		})
	}
	t.Cleanup(func() { stop(); running.Wait() })
	return l
}

// writeOnce creates, changes and deletes a cluster. Create and update go
// through both webhooks.
func writeOnce(ctx context.Context, c client.Client, name string) error {
	object := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	object.Labels["changed"] = "true" // the webhook has given it the default set
	if err := c.Update(ctx, object); err != nil {
		return fmt.Errorf("changing %s: %w", name, err)
	}
	if err := c.Delete(ctx, object); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

func (l *load) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		l.Done.Add(2)
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.failed = append(l.failed, err)
}

// ListFailures returns the requests that have failed.
func (l *load) ListFailures() []error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.failed)
}

// HasMore reports whether as many requests have got through since the last wait.
func (l *load) HasMore(count int64) bool { return l.Done.Load() >= l.from+count }

// AwaitRequests waits while the clients write.
func (l *load) AwaitRequests(t testing.TB, reason string, condition func() bool) {
	t.Helper()
	l.from = l.Done.Load()
	if !poll(t, condition) {
		t.Fatalf("it never came to this: %s; failed requests: %v", reason, l.ListFailures())
	}
}
