// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestAReconnectForgetsNothing has clusters that are connected again and again.
func TestAReconnectForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all KeptState[*int]
		connect := func(name ClusterName) (*int, context.CancelFunc) {
			ctx, end := context.WithCancel(t.Context())
			return all.StateOf(ctx, clock.RealClock{}, name, func() *int { return new(int) }), func() { end(); synctest.Wait() }
		}
		first, end := connect("a")
		time.Sleep(2 * keptFor)
		end()
		time.Sleep(keptFor)
		again, end := connect("a")
		if again != first {
			t.Error("what is of a cluster is forgotten though it was away for no longer than an hour")
		}
		other, endOther := connect("b")
		if other == first {
			t.Error("two clusters have the same")
		}
		end()
		time.Sleep(keptFor + time.Second)
		endOther()
		if _, end := connect("b"); len(all.clusters) != 1 {
			t.Errorf("%d clusters are kept after one was away for longer than an hour, want the other one", len(all.clusters))
		} else {
			end()
		}
	})
}
