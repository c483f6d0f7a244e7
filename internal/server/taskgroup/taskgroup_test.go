// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package taskgroup

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"
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

// TestALongMessageLeavesTheStack has functions panic with what a member has written, inside each other's groups.
func TestALongMessageLeavesTheStack(t *testing.T) {
	g := NewLimitedGroup(1)
	g.Go(func() error {
		inner := NewLimitedGroup(1)
		inner.Go(func() error { panic(errors.New("said " + strings.Repeat("ä", 1<<20))) })
		return inner.Wait()
	})
	defer func() {
		message, stack := DescribePanic(recover(), nil)
		if !strings.HasPrefix(message, "said ä") || len(message) > messageMax+len("…") || !utf8.ValidString(message) {
			t.Errorf("the message is %.20q with %d bytes", message, len(message))
		}
		if !strings.Contains(stack, "TestALongMessageLeavesTheStack.func1.1") || len(stack) > stackMax+len("…") {
			t.Errorf("the stack does not tell of the innermost function:\n%s", stack)
		}
	}()
	t.Errorf("Wait returned %v", g.Wait())
}

// TestAPanicWithoutAGroupHasItsOwnStack describes what was recovered where it happened.
func TestAPanicWithoutAGroupHasItsOwnStack(t *testing.T) {
	deep := strings.Repeat("frame\n", stackMax)
	if message, stack := DescribePanic("why", []byte("here "+deep)); message != "why" || !strings.HasPrefix(stack, "here frame") || len(stack) > stackMax+len("…") {
		t.Errorf("got %q with a stack of %d bytes", message, len(stack))
	}
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
