// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"golang.org/x/sync/errgroup"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// waveClusters is how many clusters join at once.
const waveClusters = 50

// errorLines keeps what controllers log as errors.
type errorLines struct {
	logr.LogSink
	mu    sync.Mutex
	lines []string
}

func (e *errorLines) Error(err error, message string, _ ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, fmt.Sprintf("%s: %v", message, err))
}

func (e *errorLines) WithValues(...any) logr.LogSink { return e }
func (e *errorLines) WithName(string) logr.LogSink   { return e }

// conflicts counts the writes that came too late.
type conflicts struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (c conflicts) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusConflict && request.Method != http.MethodPost {
		c.count.Add(1)
	}
	return response, err
}

// TestAWaveOfJoinsIsNothingToReport has many clusters join at once, whose agents
// write their status while the hub writes its own part: nothing of that is an
// error, so nobody may read of one.
func TestAWaveOfJoinsIsNothingToReport(t *testing.T) {
	h := startHub(t, registration.SetupOptions{Gates: hub.ResolveGates(t, nil)})
	h.Stop()
	lines := &errorLines{LogSink: funcr.New(func(string, string) {}, funcr.Options{}).GetSink()}
	var late atomic.Int64
	credentials := hub.AsUser(h.AdminConfig, "registration-controller-sa")
	credentials.Wrap(func(next http.RoundTripper) http.RoundTripper { return conflicts{next: next, count: &late} })
	h.StartLogging(t, credentials, registration.SetupOptions{Gates: hub.ResolveGates(t, nil)}, logr.New(lines))

	begun := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	for i := range waveClusters {
		group.Go(func() error { return h.PlayJoin(ctx, fmt.Sprintf("wave-%02d", i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "no cluster has the taint of one that is not heard of", func(ctx context.Context) (bool, error) {
		list := &clusterv1.ManagedClusterList{}
		if err := h.Client.List(ctx, list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if len(list.Items[i].Spec.Taints) > 0 {
				return false, nil
			}
		}
		return len(list.Items) == waveClusters, nil
	})
	t.Logf("%d clusters have joined after %s; %d writes came too late", waveClusters, time.Since(begun).Round(time.Millisecond), late.Load())
	h.Stop()
	lines.mu.Lock()
	defer lines.mu.Unlock()
	if len(lines.lines) > 0 {
		t.Errorf("%d errors are logged, such as:\n%s", len(lines.lines), strings.Join(lines.lines[:min(len(lines.lines), 5)], "\n"))
	}
}
