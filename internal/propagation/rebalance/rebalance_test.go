// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestWhatAPolicyAsksFor(t *testing.T) {
	const on = fleetv1alpha1.AnnotationRebalance + "=Continuous"
	for name, c := range map[string]struct {
		annotations []string
		budget      string // "" is that nothing moves by itself
		window      time.Duration
		wrong       string
	}{
		"nothing":                  {},
		"the defaults":             {[]string{on}, "10%", 10 * time.Minute, ""},
		"all of it":                {[]string{on, "fleet.capstan.io/rebalance-budget=3", "fleet.capstan.io/rebalance-window=1h"}, "3", time.Hour, ""},
		"a share":                  {[]string{on, "fleet.capstan.io/rebalance-budget=100%"}, "100%", 10 * time.Minute, ""},
		"a budget without a wish":  {[]string{"fleet.capstan.io/rebalance-budget=3"}, "", 0, ""},
		"another mode":             {[]string{"fleet.capstan.io/rebalance=Always"}, "", 0, `metadata.annotations[fleet.capstan.io/rebalance]: Unsupported value: "Always": supported values: "Continuous"`},
		"no budget":                {[]string{on, "fleet.capstan.io/rebalance-budget=0"}, "", 0, "a number of replicas of at least 1"},
		"more than all":            {[]string{on, "fleet.capstan.io/rebalance-budget=101%"}, "", 0, "1% to 100%"},
		"a budget of words":        {[]string{on, "fleet.capstan.io/rebalance-budget=some"}, "", 0, "metadata.annotations[fleet.capstan.io/rebalance-budget]"},
		"a window too short":       {[]string{on, "fleet.capstan.io/rebalance-window=1s"}, "", 0, "a duration of 1m to 24h"},
		"a window too long":        {[]string{on, "fleet.capstan.io/rebalance-window=25h"}, "", 0, "a duration of 1m to 24h"},
		"a mistake without a wish": {[]string{"fleet.capstan.io/rebalance-window=soon"}, "", 0, "metadata.annotations[fleet.capstan.io/rebalance-window]"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			for _, each := range c.annotations {
				key, value, _ := strings.Cut(each, "=")
				annotations[key] = value
			}
			set, wrong := ParseSettings(annotations)
			if c.wrong == "" && len(wrong) > 0 || c.wrong != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), c.wrong)) {
				t.Errorf("got the mistakes %v, want %q", wrong, c.wrong)
			}
			switch {
			case c.budget == "" && set != nil:
				t.Errorf("got %+v", set)
			case c.budget != "" && (set == nil || set.Budget.String() != c.budget || set.Window != c.window):
				t.Errorf("got %+v", set)
			}
		})
	}
}

func TestABudgetIsAtLeastOneReplica(t *testing.T) {
	for text, want := range map[string]int64{"1%": 1, "10%": 2, "100%": 25, "3": 3, "40": 40} {
		budget, err := budgetOf(text)
		if got := budget.BudgetedReplicas(25); err != nil || got != want {
			t.Errorf("%s of 25 replicas are %d (%v), want %d", text, got, err, want)
		}
	}
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// run lets so many minutes pass with a look each minute. want is where the replicas
// would be.
type run struct {
	minutes int
	want    Replicas
}

func TestWhatMovesWhen(t *testing.T) {
	even := Replicas{"a": 2, "b": 2, "c": 2}
	for name, c := range map[string]struct {
		reason string
		runs   []run
		want   []string // what moved
	}{
		"a new cluster": {
			reason: "two replicas, one in each window", runs: []run{{60, even}},
			want: []string{"10m: 1 replica moved: a 3 -> 2, c 0 -> 1, as there is room in c; 1 more would move", "21m: 1 replica moved: b 3 -> 2, c 1 -> 2, as the room in clusters has changed"},
		},
		"as it is":               {reason: "nothing is better", runs: []run{{60, Replicas{"a": 3, "b": 3}}}},
		"for a moment":           {reason: "it is not better for a whole window", runs: []run{{9, even}, {1, Replicas{"a": 3, "b": 3}}, {9, even}, {1, Replicas{"a": 3, "b": 3}}}},
		"this way and that":      {reason: "there is never one opinion for a window", runs: []run{{5, Replicas{"a": 4, "b": 2}}, {5, Replicas{"a": 2, "b": 4}}, {5, Replicas{"a": 4, "b": 2}}, {5, Replicas{"a": 2, "b": 4}}}},
		"more, and less":         {reason: "what moves least counts", runs: []run{{5, Replicas{"c": 6}}, {6, Replicas{"a": 3, "b": 2, "c": 1}}}, want: []string{"10m: 1 replica moved: b 3 -> 2, c 0 -> 1, as there is room in c"}},
		"a cluster is left":      {reason: "it has nothing in the end", runs: []run{{60, Replicas{"a": 6}}}, want: []string{"10m: 1 replica moved: a 3 -> 4, b 3 -> 2, as the room in clusters has changed; 2 more would move", "21m: 1 replica moved: a 4 -> 5, b 2 -> 1, as the room in clusters has changed; 1 more would move", "32m: 1 replica moved: a 5 -> 6, b 1 -> 0, as the room in clusters has changed"}},
		"a better one comes too": {reason: "what comes later waits for its own window", runs: []run{{5, even}, {40, Replicas{"d": 6}}}, want: []string{"15m: 1 replica moved: a 3 -> 2, d 0 -> 1, as there is room in d; 5 more would move", "26m: 1 replica moved: b 3 -> 2, d 1 -> 2, as the room in clusters has changed; 4 more would move", "37m: 1 replica moved: a 2 -> 1, d 2 -> 3, as the room in clusters has changed; 3 more would move"}},
	} {
		t.Run(name, func(t *testing.T) {
			var state ObservedState
			var moved time.Time
			var got []string
			has, now := Replicas{"a": 3, "b": 3}, noon()
			for _, r := range c.runs {
				for range r.minutes {
					var step *Step
					state, step = state.NextStep(ObservedReplicas{At: now, Has: has, Wants: r.want, Moved: moved}, Settings{Budget: Budget{replicas: 1}, Window: 10 * time.Minute})
					if step != nil {
						got = append(got, strings.TrimSuffix(now.Sub(noon()).String(), "0s")+": "+step.RecordOfMove(has, now).What)
						has, moved = step.To, now
					}
					now = now.Add(time.Minute)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// chance makes divisions by chance.
type chance struct{ *rand.Rand }

func (c chance) division(replicas int) Replicas {
	has := Replicas{}
	for range replicas {
		has[[]string{"a", "b", "c", "d"}[c.IntN(4)]]++
	}
	return has
}

// byChance runs a test with many beginnings; the failure names the seed.
func byChance(t *testing.T, test func(*testing.T, chance)) {
	t.Helper()
	const seeds = 200
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { test(t, chance{rand.New(rand.NewPCG(seed, 1))}) })
	}
}

// went is how many replicas go to another cluster.
func went(before, after Replicas) int64 {
	var all int64
	for _, c := range CompareReplicas(before, after) {
		all += max(0, int64(c.After-c.Before))
	}
	return all
}

// TestNoMoreMovesThanTheBudget has wishes change at random: in no window more moves
// than the budget, no replica is lost, and nothing moves from or to what is fixed.
func TestNoMoreMovesThanTheBudget(t *testing.T) {
	byChance(t, func(t *testing.T, by chance) {
		replicas := by.IntN(40)
		set := Settings{Budget: Budget{replicas: 1 + by.Int32N(5)}, Window: time.Duration(1+by.IntN(20)) * time.Minute}
		has, now, fixed := by.division(replicas), noon(), map[string]bool{"b": by.IntN(2) == 0}
		var state ObservedState
		var moved time.Time
		for range 200 {
			now = now.Add(time.Duration(1+by.IntN(300)) * time.Second)
			wants := by.division(replicas)
			if by.IntN(10) > 0 { // or nothing would ever move
				wants = Replicas{"c": int32(replicas)}
			}
			var step *Step
			state, step = state.NextStep(ObservedReplicas{At: now, Has: has, Wants: wants, Moved: moved, Fixed: fixed}, set)
			if step == nil {
				continue
			}
			if !moved.IsZero() && now.Sub(moved) < set.Window {
				t.Fatalf("it moves %s after the last time", now.Sub(moved))
			}
			if n := went(has, step.To); n != step.Moves || n > set.Budget.BudgetedReplicas(int64(replicas)) || n == 0 || totalReplicas(step.To) != int64(replicas) {
				t.Fatalf("%d replicas went, and %d are said to, from %v to %v", n, step.Moves, has, step.To)
			}
			for _, c := range CompareReplicas(has, step.To) {
				if c.After < 0 || fixed[c.Cluster] {
					t.Fatalf("%+v", c)
				}
			}
			has, moved = step.To, now
		}
	})
}

// TestItComesToRest has the same be wished for all the time: each replica moves once
// at most, to where it is wished for, and then nothing does.
func TestItComesToRest(t *testing.T) {
	byChance(t, func(t *testing.T, by chance) {
		replicas := 1 + by.IntN(30)
		has, wants := by.division(replicas), by.division(replicas)
		set := Settings{Budget: Budget{replicas: 1 + by.Int32N(5)}, Window: 2 * time.Minute}
		far, all, now := went(has, wants), int64(0), noon()
		var state ObservedState
		var moved time.Time
		for range 200 {
			now = now.Add(time.Minute)
			var step *Step
			if state, step = state.NextStep(ObservedReplicas{At: now, Has: has, Wants: wants, Moved: moved}, set); step != nil {
				all, has, moved = all+step.Moves, step.To, now
			}
		}
		if all != far || !maps.Equal(has, wants) {
			t.Fatalf("%d replicas went and %d had to, and they are at %v instead of %v", all, far, has, wants)
		}
	})
}

// TestWhatComesAndGoesMovesNothing has it be right as it is at least once in each
// window.
func TestWhatComesAndGoesMovesNothing(t *testing.T) {
	byChance(t, func(t *testing.T, by chance) {
		has, now := Replicas{"a": 3, "b": 3}, noon()
		var state ObservedState
		for n := range 60 {
			now = now.Add(time.Minute)
			wants := by.division(6)
			if n%3 == 2 {
				wants = has
			}
			var step *Step
			if state, step = state.NextStep(ObservedReplicas{At: now, Has: has, Wants: wants}, Settings{Budget: Budget{replicas: 6}, Window: 4 * time.Minute}); step != nil {
				t.Fatalf("%+v moved", step)
			}
		}
	})
}

func TestTheRecordIsRead(t *testing.T) {
	record := (&Step{To: Replicas{"a": 1}, Moves: 2, Rest: 1}).RecordOfMove(Replicas{"a": 3}, noon())
	got := LastMove(map[string]string{fleetv1alpha1.AnnotationRebalanced: record.AnnotationText()})
	if !got.At.Time.Equal(record.At.Time) || got.Moves != 2 || got.What != record.What {
		t.Errorf("got %+v, want %+v", got, record)
	}
	for _, text := range []string{"", "yesterday", `{"at": 7}`} {
		if got := LastMove(map[string]string{fleetv1alpha1.AnnotationRebalanced: text}); !got.At.IsZero() {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
