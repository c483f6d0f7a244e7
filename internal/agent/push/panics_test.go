// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"sync/atomic"
	"testing"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// faulty is a part that panics in a goroutine the first time that it is engaged for a cluster.
type faulty struct {
	cluster fleet.ClusterName
	engaged atomic.Int32
}

func (p *faulty) Name() string { return "faulty" }

func (p *faulty) Engage(_ context.Context, c *fleet.Connection) error {
	if c.Name == p.cluster && p.engaged.Add(1) == 1 {
		c.Go(func() { panic("a mistake") })
	}
	return nil
}

// TestAPanicEndsTheConnectionOfOneCluster has a part panic for one of two clusters.
func TestAPanicEndsTheConnectionOfOneCluster(t *testing.T) {
	l := newLab(t)
	part := &faulty{cluster: "bad"}
	l.parts = []fleet.Part{part}
	l.join("good")
	l.join("bad")
	l.start(local(), work.PartOptions{})
	l.says("bad", connected, fleetv1alpha1.ClusterConnectionReasonAgentFailed)
	l.work("good", "of-good")
	l.delivered("good", "of-good")
	l.says("bad", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	l.work("bad", "of-bad")
	l.delivered("bad", "of-bad")
	if n := part.engaged.Load(); n != 2 {
		t.Errorf("the parts were engaged %d times", n)
	}
}
