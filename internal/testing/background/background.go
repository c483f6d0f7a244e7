// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package background runs what a test needs beside it, and no longer than the test.
package background

import (
	"context"
	"sync"
	"testing"
)

// RunUntilEnd runs a function until the test ends, and waits for it then. The function is to
// return when its context is done; the test fails if it returns an error.
func RunUntilEnd(t testing.TB, what string, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}
