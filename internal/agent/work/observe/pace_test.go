// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/agent/work/plan"
)

// TestWhatThereWasNoTimeForIsEvaluatedAgain looks at an object that does not change, when nothing tells.
func TestWhatThereWasNoTimeForIsEvaluatedAgain(t *testing.T) {
	now := time.Unix(1700000000, 0)
	o := &plan.Observation{Seen: "1", Next: now.Add(refusedRetry)}
	if current, _ := isCurrent(o, "1", true, now); !current {
		t.Error("what was evaluated is not current")
	}
	o.OutOfTime = true
	if current, waits := isCurrent(o, "1", true, now); current || !waits {
		t.Errorf("it is current: %t, and waits: %t", current, waits)
	}
	if current, waits := isCurrent(o, "1", true, o.Next); current || waits {
		t.Errorf("in the end it is current: %t, and waits: %t", current, waits)
	}
}

// TestManyChangesAreFewEvaluations lets an object change at an interval and
// evaluates as the pace allows: when a change is seen, or as soon as the window
// of the last evaluation is over.
func TestManyChangesAreFewEvaluations(t *testing.T) {
	for reason, test := range map[string]struct {
		changes  int
		interval time.Duration
		most     time.Duration
		// atMost evaluations, the first at once, and the last change reported
		// within lag.
		atLeast, atMost int
		lag             time.Duration
	}{
		"a single change is evaluated at once": {changes: 1, interval: time.Second, most: paceWindowMax, atLeast: 1, atMost: 1},
		"changes with rest between are all evaluated at once": {
			changes: 50, interval: paceRest + time.Second, most: paceWindowMax, atLeast: 50, atMost: 50,
		},
		"a dozen changes in a row are all evaluated at once": {
			changes: 12, interval: 30 * time.Millisecond, most: paceWindowMax, atLeast: 12, atMost: 12,
		},
		"a hundred changes at a time are few evaluations": {
			changes: 100, interval: time.Millisecond, most: paceWindowMax, atLeast: 2, atMost: 12, lag: paceWindowMin,
		},
		"a thousand changes in a second are few evaluations": {
			changes: 1000, interval: time.Millisecond, most: paceWindowMax, atLeast: 5, atMost: 40, lag: 250 * time.Millisecond,
		},
		"a rollout of a minute is reported while it lasts": {
			changes: 120, interval: 500 * time.Millisecond, most: paceWindowMax, atLeast: 20, atMost: 45, lag: paceWindowMax,
		},
		"an object that never rests is evaluated six times a minute": {
			changes: 36000, interval: 100 * time.Millisecond, most: paceWindowMax, atLeast: 300, atMost: 420, lag: paceWindowMax,
		},
		"an object that never rests and is polled each minute is evaluated once a minute": {
			changes: 36000, interval: 100 * time.Millisecond, most: time.Minute, atLeast: 50, atMost: 110, lag: time.Minute,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
			var p evaluationThrottle
			evaluations, unseen := 0, false
			evaluate := func() {
				if unseen && !clock.Now().Before(p.nextEvaluation(test.most)) {
					p, unseen = p.afterEvaluation(clock.Now(), test.most), false
					evaluations++
				}
			}
			for range test.changes {
				unseen = true
				evaluate()
				if evaluations == 0 {
					t.Fatal("the first change waits")
				}
				next := clock.Now().Add(test.interval)
				if due := p.nextEvaluation(test.most); unseen && due.Before(next) {
					clock.SetTime(due)
					evaluate()
				}
				clock.SetTime(next)
			}
			last := clock.Now().Add(-test.interval)
			if due := p.nextEvaluation(test.most); unseen {
				if lag := due.Sub(last); lag > test.lag {
					t.Errorf("the last change is reported after %s, want %s at most", lag, test.lag)
				}
				evaluations++
			}
			if evaluations < test.atLeast || evaluations > test.atMost {
				t.Errorf("%d evaluations, want %d to %d", evaluations, test.atLeast, test.atMost)
			}
		})
	}
}
