// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection"
)

// ErrNotLeader ends the work of a replica that cannot show any more that it leads.
var ErrNotLeader = errors.New("this replica does not lead any more")

// RunAsLeader runs the function while this replica leads. It returns when the function
// does, and with ErrNotLeader when another replica may lead; what the function says
// then, whose context has ended, is part of that error. A replica that sees
// another one in the Lease ends at once: client-go's elector alone would work on
// until its own time is over. When ctx ends, the
// Lease is given up after the function has returned, so that no two replicas
// work at a time. It can be called again with the same lock once it has returned.
func RunAsLeader(ctx context.Context, lock *Lock, run func(context.Context) error) error {
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	lock.resetCandidate(stop)
	var begun atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: lock.lease.LeaseMeta.Name, ReleaseOnCancel: true,
		LeaseDuration: lock.times.LeaseDuration, RenewDeadline: lock.times.RenewDeadline, RetryPeriod: lock.times.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer stop()
				begun.Store(true)
				result <- lock.runWhileLeading(ctx, leading, run)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the election of a leader by Lease %s: %w", lock.Describe(), err)
	}
	defer context.AfterFunc(ctx, func() {
		if !begun.Load() {
			stop()
		}
	})()
	elector.Run(electing)
	if !lock.held {
		return nil // the process ends before it led
	}
	return <-result
}

// runWhileLeading runs the function until ctx or leading ends.
func (l *Lock) runWhileLeading(ctx, leading context.Context, run func(context.Context) error) error {
	if ctx.Err() != nil {
		return nil
	}
	l.working.Store(true)
	defer l.working.Store(false)
	working, end := context.WithCancel(leading)
	defer end()
	defer context.AfterFunc(ctx, end)()
	err := run(working)
	if leading.Err() != nil && ctx.Err() == nil {
		return errors.Join(ErrNotLeader, err)
	}
	return err
}
