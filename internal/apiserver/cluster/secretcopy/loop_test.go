// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package secretcopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// hub has clusters that wait.
type hub struct {
	mu      sync.Mutex
	begin   time.Time
	stored  []string
	down    bool
	looks   map[string][]time.Duration
	looking func(cluster string) (bool, error)
}

func (h *hub) Waiting(_ context.Context, take func(string)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return errors.New("the hub is down")
	}
	for _, name := range h.stored {
		take(name)
	}
	return nil
}

func (h *hub) CopyAwaited(_ context.Context, cluster string) (bool, error) {
	h.mu.Lock()
	h.looks[cluster] = append(h.looks[cluster], time.Since(h.begin))
	h.mu.Unlock()
	return h.looking(cluster)
}

func (h *hub) looksAt(cluster string) []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.looks[cluster])
}

// run runs a loop on a clock of its own until the test is over.
func run(t *testing.T, h *hub) *CopyLoop {
	t.Helper()
	h.begin, h.looks = time.Now(), map[string][]time.Duration{}
	if h.looking == nil {
		h.looking = func(string) (bool, error) { return true, nil }
	}
	l := NewCopyLoop(h, clock.RealClock{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.RunCopyLoop(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	synctest.Wait()
	return l
}

func seconds(numbers ...int) []time.Duration {
	var all []time.Duration
	for _, n := range numbers {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

func TestLooksBecomeRarerUntilNothingIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		var copied atomic.Bool
		h.looking = func(string) (bool, error) { return !copied.Load(), nil }
		l := run(t, h)
		l.AddWaiting("one")
		time.Sleep(100 * time.Second)
		if got, want := h.looksAt("one"), seconds(1, 3, 7, 15, 31, 61, 91); !slices.Equal(got, want) {
			t.Errorf("looks at %v, want at %v", got, want)
		}
		copied.Store(true)
		time.Sleep(time.Hour)
		if got := len(h.looksAt("one")); got != 8 {
			t.Errorf("%d looks in all, want one more and then none", got)
		}
	})
}

func TestAFailedLookIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{looking: func(string) (bool, error) { return false, errors.New("the hub is down") }}
		run(t, h).AddWaiting("one")
		time.Sleep(4 * time.Second)
		if got, want := h.looksAt("one"), seconds(1, 3); !slices.Equal(got, want) {
			t.Errorf("looks at %v, want at %v", got, want)
		}
	})
}

func TestALoopFindsWhatAnEarlierOneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{stored: []string{"left"}, down: true}
		run(t, h)
		time.Sleep(5 * time.Second)
		h.mu.Lock()
		h.down = false
		h.mu.Unlock()
		time.Sleep(6 * time.Second)
		if got, want := h.looksAt("left"), seconds(10); !slices.Equal(got, want) {
			t.Errorf("looks at %v, want at %v, when the hub is searched again", got, want)
		}
		h.mu.Lock()
		h.stored = append(h.stored, "later")
		h.mu.Unlock()
		time.Sleep(11 * time.Minute)
		if len(h.looksAt("later")) == 0 {
			t.Error("what another replica left is never looked at")
		}
	})
}

func TestAnotherSecretIsLookedForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		var l *CopyLoop
		again := false
		h.looking = func(cluster string) (bool, error) {
			if !again {
				again = true
				l.AddWaiting(cluster) // while the loop looks for the one before
			}
			return false, nil
		}
		l = run(t, h)
		l.AddWaiting("one")
		time.Sleep(time.Minute)
		if got, want := h.looksAt("one"), seconds(1, 2); !slices.Equal(got, want) {
			t.Errorf("looks at %v, want at %v", got, want)
		}
	})
}

func TestOnlySoManyClustersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := run(t, &hub{})
		for i := range waitingMax {
			name := fmt.Sprintf("c%d", i)
			if !l.HasRoomFor(name) {
				t.Fatalf("there is no room for %s", name)
			}
			l.AddWaiting(name)
		}
		if l.HasRoomFor("more") || !l.HasRoomFor("c0") {
			t.Errorf("room for one more: %t, want none; for one that waits already: %t, want that", l.HasRoomFor("more"), l.HasRoomFor("c0"))
		}
	})
}
