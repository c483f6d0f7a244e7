// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/server/taskgroup"
)

const (
	// afterPanicMin and afterPanicMax bound for how long a cluster is left alone after something that
	// works for it panicked; it doubles with each panic.
	afterPanicMin = 10 * time.Second
	afterPanicMax = 10 * time.Minute
	// panicsForgotten is after how long without a panic the next one counts as the first.
	panicsForgotten = time.Hour
)

// sessionPanics are those of what works for one cluster. A mistake of ours that what a cluster says brings out must
// not end the process, which works for all others, too.
type sessionPanics struct {
	happened atomic.Bool
	// The rest is only for the session's loop: how many there were, when the last was, and until when the
	// cluster is left alone.
	count       int
	last, until time.Time
}

// handlePanic notes a panic of something that works for the cluster. The session ends the connection. It is safe
// for concurrent use.
func (s *session) handlePanic(value any, stack []byte) {
	message, at := taskgroup.DescribePanic(value, stack)
	s.agent.options.Log.Error(errors.New("panic: "+message), "The work for a Push cluster ends and begins again later: this is a bug",
		"cluster", s.name, "stack", at)
	s.panics.happened.Store(true)
	s.loop.Kick()
}

// runContainedPass is reconcileSession, whose panics end the connection of the cluster only.
func (s *session) runContainedPass(ctx context.Context) (again time.Duration, err error) {
	defer func() {
		if value := recover(); value != nil {
			s.handlePanic(value, debug.Stack())
		}
	}()
	return s.reconcileSession(ctx)
}

// settleAfterPanic ends the connection after a panic. It returns for how long the cluster is still left alone.
func (s *session) settleAfterPanic(now time.Time) time.Duration {
	p := &s.panics
	if p.happened.Load() {
		s.disengageParts()
		p.happened.Store(false) // also what panicked while it ended
		if now.Sub(p.last) > panicsForgotten {
			p.count = 0
		}
		p.count++
		p.last = now
		p.until = now.Add(backoff.DelayAfter(p.count, backoff.ExponentialBetween(afterPanicMin, afterPanicMax)))
		s.next = time.Time{} // it is probed at once then
	}
	wait := max(p.until.Sub(now), 0)
	if wait > 0 {
		s.outcome.connected = dial.ConnectionProblem{
			Reason:  fleetv1alpha1.ClusterConnectionReasonAgentFailed,
			Message: "the push agent failed at something in the cluster and serves it again later; its log says at what. Report it as a bug",
		}
	}
	return wait
}
