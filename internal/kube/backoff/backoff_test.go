// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

func TestWaitsDoubleUpToTheLongest(t *testing.T) {
	b := backoff.ExponentialBetween(time.Second, 10*time.Second)
	var got []time.Duration
	for range 6 {
		got = append(got, b.Step())
	}
	want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waits, -want +got:\n%s", diff)
	}
}

func TestAfter(t *testing.T) {
	for reason, test := range map[string]struct {
		failures          int
		shortest, longest time.Duration
		want              time.Duration
	}{
		"without a failure it is the shortest wait":          {0, time.Second, time.Minute, time.Second},
		"a count that makes no sense is no failure":          {-3, time.Second, time.Minute, time.Second},
		"after the first failure it is the shortest wait":    {1, time.Second, time.Minute, time.Second},
		"after each further one it is twice as long":         {4, time.Second, time.Minute, 8 * time.Second},
		"it is never longer than the longest":                {7, time.Second, time.Minute, time.Minute},
		"many failures do not overflow":                      {1 << 30, time.Second, 100 * 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour},
		"the shortest wait may be the longest one":           {5, time.Second, time.Second, time.Second},
		"the smallest wait grows to the largest one in time": {64, 1, time.Hour, time.Hour},
	} {
		t.Run(reason, func(t *testing.T) {
			if got := backoff.DelayAfter(test.failures, backoff.ExponentialBetween(test.shortest, test.longest)); got != test.want {
				t.Errorf("the wait is %v, want %v", got, test.want)
			}
		})
	}
}

func TestAfterDoesNotUseUpItsBackoff(t *testing.T) {
	b := backoff.ExponentialBetween(time.Second, time.Minute)
	first, again := backoff.DelayAfter(3, b), backoff.DelayAfter(3, b)
	if first != again {
		t.Errorf("the same count waits %v and then %v", first, again)
	}
}

func TestSleepEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if backoff.SleepContext(ctx, clock.RealClock{}, time.Hour) {
		t.Error("it slept to the end")
	}
	if !backoff.SleepContext(t.Context(), clock.RealClock{}, time.Nanosecond) {
		t.Error("it did not sleep to the end")
	}
}
