// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/utils/clock"
)

// endWithin is the longest time until a process ends whose manager has failed. All
// replicas of all programs lose their API server at the same time, and those that lead
// their Leases with it: they would all start again at once, on a machine that has enough
// to do.
const endWithin = 10 * time.Second

// RunManager runs a manager until ctx ends. A manager that has failed, or has lost its Lease,
// cannot be started again: the process has to end, and RunManager returns after a random time
// of up to ten seconds.
func RunManager(ctx context.Context, manager interface{ Start(context.Context) error }) error {
	return runManager(ctx, manager, clock.RealClock{})
}

func runManager(ctx context.Context, manager interface{ Start(context.Context) error }, clk clock.Clock) error {
	err := manager.Start(ctx)
	if err == nil {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-clk.After(rand.N(endWithin)): //nolint:gosec // nothing depends on it being secret
	}
	return err //nolint:wrapcheck // who calls says which manager it is
}
