// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package taskgroup

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAPanicComesToWhoWaits(t *testing.T) {
	g, ctx := WithContext(t.Context())
	g.Go(func() error { return errors.New("first") })
	g.Go(func() error {
		<-ctx.Done()
		panic("what a member made happen")
	})
	defer func() {
		err, _ := recover().(error)
		if err == nil || !strings.Contains(err.Error(), "what a member made happen") || !strings.Contains(err.Error(), "taskgroup_test.go") {
			t.Errorf("recovered %v, want the panic with its stack", err)
		}
	}()
	err := g.Wait()
	t.Errorf("Wait returned %v", err)
}

func TestErrorsAndTheLimitAreThoseOfErrgroup(t *testing.T) {
	g := NewLimitedGroup(1)
	var running, most atomic.Int32
	for range 5 {
		g.Go(func() error {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			running.Add(-1)
			return nil
		})
	}
	g.Go(func() error { return context.Canceled })
	if err := g.Wait(); !errors.Is(err, context.Canceled) || most.Load() != 1 {
		t.Errorf("Wait returned %v, %d ran at a time", err, most.Load())
	}
}
