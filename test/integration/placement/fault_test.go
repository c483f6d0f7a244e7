// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/integration/placement/harness"
)

// TestKilledAtEveryWrite lets no controller live longer than one write, which is
// carried out for every other. While clusters move from group to group, each
// is listed all the time.
func TestKilledAtEveryWrite(t *testing.T) {
	w := harness.NewWorld(t, Servers, "killed")
	size := 60
	if *long {
		size = 300
	}
	w.EachOf(size, func(ctx context.Context, i int) error { return w.Create(ctx, w.Cluster(i)) })
	w.Outlive()
	missing := w.Observe("everywhere", size)
	w.EachOf(size/3, func(ctx context.Context, i int) error {
		return w.LabelCluster(ctx, i, harness.RingLabel, harness.Canary)
	})
	w.EachOf(size/4, func(ctx context.Context, i int) error { return w.LabelCluster(ctx, i*2, harness.EnvLabel, "test") })
	w.Outlive()
	if seen := missing(); len(seen) > 0 {
		w.Errorf("clusters were missing for a moment: %v", seen)
	}
	w.Settles(w.StartController(&harness.Controller{}))
}

// TestTwoControllersAtOnce has what an election prevents but for the moment in
// which a leader that lost it is still writing.
func TestTwoControllersAtOnce(t *testing.T) {
	w := harness.NewWorld(t, Servers, "handover")
	size, rounds := 60, 4
	if *long {
		size, rounds = 300, 20
	}
	w.EachOf(size, func(ctx context.Context, i int) error { return w.Create(ctx, w.Cluster(i)) })
	running := []*harness.Controller{w.StartController(&harness.Controller{}), w.StartController(&harness.Controller{})}
	for round := range rounds {
		w.EachOf(size/2, func(ctx context.Context, i int) error {
			if i%5 == round%5 {
				return w.LabelCluster(ctx, i, harness.RingLabel, []string{harness.Canary, "rest"}[round%2])
			}
			return w.LabelCluster(ctx, i, harness.EnvLabel, []string{harness.Prod, "test"}[(i+round)%2])
		})
		running[0].Kill()
		running = append(running[1:], w.StartController(&harness.Controller{}))
	}
	w.Settles(running...)
}

// TestClustersComeAndGo has many clusters for a short time, with labels that
// change, and the controller killed in the midst of it.
func TestClustersComeAndGo(t *testing.T) {
	w := harness.NewWorld(t, Servers, "churn")
	size, lifetime := 100, 4*time.Second
	if *long {
		size, lifetime = 500, time.Minute
	}
	c := w.StartController(&harness.Controller{})
	random := rand.New(rand.NewPCG(1, 2))
	lifetimes := make([]time.Duration, size)
	for i := range lifetimes {
		lifetimes[i] = time.Duration(random.Int64N(int64(lifetime)))
	}
	ended := make(chan error, size)
	for i := range size {
		go func() { ended <- w.Live(i, lifetimes[i]) }()
	}
	<-time.After(lifetime / 2)
	c.Kill()
	c = w.StartController(&harness.Controller{})
	var errs []error
	for range size {
		errs = append(errs, <-ended)
	}
	if failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(failed) > 0 {
		w.Fatal(failed[0])
	}
	w.Settles(c)
}
