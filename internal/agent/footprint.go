// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// startupTimes returns when the start of an agent is over, after the one
// before. An agent that waits for its hub for longer has little to give back.
func startupTimes() []time.Duration {
	return []time.Duration{3 * time.Second, 30 * time.Second, 10 * time.Minute}
}

// slim gives back the memory that only the start needed when it is over.
func (a *Agent) slim(ctx context.Context, clk clock.Clock) {
	for _, wait := range startupTimes() {
		timer := clk.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		if err := releaseStartup(); err != nil {
			a.options.Log.V(1).Info("Keeping the memory that the start needed", "problem", err.Error())
			return
		}
	}
}
