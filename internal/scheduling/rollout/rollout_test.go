// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func since(status ClusterStatus, ago time.Duration) ClusterState {
	return ClusterState{Status: status, Since: noon.Add(-ago)}
}

func TestDecide(t *testing.T) {
	groups := []ClusterGroup{{Name: "canary", Clusters: []string{"a"}}, {Clusters: []string{"b", "c"}}, {Clusters: []string{"d"}}}
	hour, soon := time.Hour, noon.Add(59*time.Minute)
	done, failed, busy := since(Succeeded, time.Minute), since(Failed, time.Minute), since(Progressing, time.Minute)
	cases := map[string]struct {
		reason   string
		strategy Strategy
		states   map[string]ClusterState
		want     ApplyDecision
	}{
		"all": {reason: "at once", strategy: Strategy{Kind: All}, want: ApplyDecision{Apply: []string{"a", "b", "c", "d"}}},
		"all, some are done": {
			reason: "a failure does not keep others from it", strategy: Strategy{Kind: All}, states: map[string]ClusterState{"a": done, "b": failed},
			want: ApplyDecision{Apply: []string{"c", "d"}, Failed: []string{"b"}},
		},
		"all are done": {reason: "nothing is left", strategy: Strategy{Kind: All}, states: map[string]ClusterState{"a": done, "b": done, "c": done, "d": done}, want: ApplyDecision{Done: true}},
		"too early to say": {
			reason: "they have to have succeeded for an hour", strategy: Strategy{Kind: All, MinSuccess: hour}, states: map[string]ClusterState{"a": done, "b": done, "c": done, "d": done},
			want: ApplyDecision{After: soon, Proving: []ProvingCluster{{"a", soon}, {"b", soon}, {"c", soon}, {"d", soon}}},
		},
		"two at a time":        {reason: "the first two", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(2)}, want: ApplyDecision{Apply: []string{"a", "b"}, Waiting: 2}},
		"a quarter at a time":  {reason: "of all clusters", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromString("25%")}, want: ApplyDecision{Apply: []string{"a"}, Waiting: 3}},
		"one is on its way":    {reason: "so there is room for one", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(2)}, states: map[string]ClusterState{"a": busy}, want: ApplyDecision{Apply: []string{"b"}, Waiting: 2}},
		"one has just made it": {reason: "it takes room until it counts", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(1), MinSuccess: hour}, states: map[string]ClusterState{"a": done}, want: ApplyDecision{Waiting: 3, After: soon, Proving: []ProvingCluster{{"a", soon}}}},
		"the second group has just made it": {
			reason: "the third waits for those that have, and the first has for long enough", strategy: Strategy{Kind: ProgressivePerGroup, MinSuccess: hour},
			states: map[string]ClusterState{"a": since(Succeeded, hour), "b": busy, "c": done, "d": done},
			want:   ApplyDecision{After: soon, Proving: []ProvingCluster{{"c", soon}}},
		},
		"one has failed": {
			reason: "none may", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(2)}, states: map[string]ClusterState{"a": failed, "b": busy},
			want: ApplyDecision{Failed: []string{"a"}, Waiting: 2, Stopped: "1 failed, and maxFailures allows 0"},
		},
		"one may fail": {
			reason: "a quarter of four", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(2), MaxFailures: intstr.FromString("25%")}, states: map[string]ClusterState{"a": failed, "b": busy},
			want: ApplyDecision{Apply: []string{"c"}, Failed: []string{"a"}, Waiting: 1},
		},
		"it may recover": {
			reason: "until the deadline", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(1), Deadline: &hour}, states: map[string]ClusterState{"a": failed},
			want: ApplyDecision{Waiting: 3, After: soon},
		},
		"it took too long": {
			reason: "that is a failure", strategy: Strategy{Kind: Progressive, MaxConcurrency: intstr.FromInt32(1), Deadline: &hour}, states: map[string]ClusterState{"a": since(Progressing, hour)},
			want: ApplyDecision{Failed: []string{"a"}, Waiting: 3, Stopped: "1 failed, and maxFailures allows 0"},
		},
		"group by group": {reason: "the first", strategy: Strategy{Kind: ProgressivePerGroup}, want: ApplyDecision{Apply: []string{"a"}, Waiting: 3}},
		"group by group, one at a time": {
			reason: "of a group", strategy: Strategy{Kind: ProgressivePerGroup, MaxConcurrency: intstr.FromString("50%")}, states: map[string]ClusterState{"a": done},
			want: ApplyDecision{Apply: []string{"b"}, Waiting: 2},
		},
		"the second group":          {reason: "the first has succeeded", strategy: Strategy{Kind: ProgressivePerGroup}, states: map[string]ClusterState{"a": done}, want: ApplyDecision{Apply: []string{"b", "c"}, Waiting: 1}},
		"the second group, in part": {reason: "the third waits for all of it", strategy: Strategy{Kind: ProgressivePerGroup}, states: map[string]ClusterState{"a": done, "b": done, "c": busy}, want: ApplyDecision{Waiting: 1}},
		"the second group fails": {
			reason: "the third is not touched", strategy: Strategy{Kind: ProgressivePerGroup}, states: map[string]ClusterState{"a": done, "b": failed, "c": done},
			want: ApplyDecision{Failed: []string{"b"}, Waiting: 1, Stopped: "1 failed in group 1, and maxFailures allows 0"},
		},
		"the second group may fail": {
			reason: "and is done then", strategy: Strategy{Kind: ProgressivePerGroup, MaxFailures: intstr.FromInt32(1)}, states: map[string]ClusterState{"a": done, "b": failed, "c": done},
			want: ApplyDecision{Apply: []string{"d"}, Failed: []string{"b"}},
		},
		"a mandatory group": {
			reason: "comes first although it is the last", strategy: Strategy{Kind: Progressive, Mandatory: []GroupRef{{Index: 2}}},
			want: ApplyDecision{Apply: []string{"d"}, Waiting: 3},
		},
		"a mandatory group has succeeded": {
			reason: "the others follow", strategy: Strategy{Kind: Progressive, Mandatory: []GroupRef{{Name: "canary"}}, MaxConcurrency: intstr.FromInt32(2)}, states: map[string]ClusterState{"a": done},
			want: ApplyDecision{Apply: []string{"b", "c"}, Waiting: 1},
		},
		"a mandatory group fails": {
			reason: "none of its clusters may, whatever the others may", strategy: Strategy{Kind: Progressive, Mandatory: []GroupRef{{Name: "canary"}}, MaxFailures: intstr.FromInt32(3)}, states: map[string]ClusterState{"a": failed},
			want: ApplyDecision{Failed: []string{"a"}, Waiting: 3, Stopped: "1 failed in group canary, and maxFailures allows 0"},
		},
		"nobody": {reason: "there is nothing to do", strategy: Strategy{Kind: Progressive}, want: ApplyDecision{Done: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := groups
			if name == "nobody" {
				in = nil
			}
			if diff := cmp.Diff(tc.want, DecideRollout(in, tc.states, tc.strategy, noon)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMistakesNameTheirField(t *testing.T) {
	cases := map[string]Strategy{
		"spec.rollout.type":             {Kind: "Slowly"},
		"spec.rollout.minSuccessTime":   {Kind: All, MinSuccess: -time.Second},
		"spec.rollout.progressDeadline": {Kind: All, Deadline: new(time.Duration)},
		"spec.rollout.maxFailures":      {Kind: Progressive, MaxFailures: intstr.FromString("some")},
		"spec.rollout.maxConcurrency":   {Kind: Progressive, MaxConcurrency: intstr.FromString("0%")},
	}
	for want, strategy := range cases {
		t.Run(want, func(t *testing.T) {
			problems := strategy.ValidateStrategy(field.NewPath("spec", "rollout"))
			if len(problems) != 1 || problems[0].Field != want {
				t.Errorf("the problems are %v, want one of %s", problems, want)
			}
		})
	}
	right := Strategy{Kind: Progressive, MaxFailures: intstr.FromString("10%"), MaxConcurrency: intstr.FromString("1%")}
	if problems := right.ValidateStrategy(field.NewPath("spec")); len(problems) > 0 {
		t.Errorf("a right strategy has problems: %v", problems)
	}
}

// TestARolloutEnds plays rollouts by chance, in which each cluster that gets the
// change succeeds or fails some time later. A failure names the seed.
func TestARolloutEnds(t *testing.T) {
	for seed := range uint64(500) {
		chance := rand.New(rand.NewPCG(seed, 1))
		strategy := Strategy{
			Kind:           []StrategyKind{All, Progressive, ProgressivePerGroup}[chance.IntN(3)],
			MinSuccess:     time.Duration(chance.IntN(3)) * time.Minute,
			MaxConcurrency: intstr.FromInt32(int32(1 + chance.IntN(3))),
			MaxFailures:    intstr.FromInt32(int32(chance.IntN(3))),
		}
		var groups []ClusterGroup
		clusters := 0
		for range chance.IntN(5) {
			var group ClusterGroup
			for range 1 + chance.IntN(4) {
				group.Clusters = append(group.Clusters, fmt.Sprintf("c%d", clusters))
				clusters++
			}
			groups = append(groups, group)
		}
		play(t, seed, chance, groups, strategy)
	}
}

func play(t *testing.T, seed uint64, chance *rand.Rand, groups []ClusterGroup, strategy Strategy) {
	t.Helper()
	states, now := map[string]ClusterState{}, noon
	for range 1000 {
		d := DecideRollout(groups, states, strategy, now)
		busy := count(states, Progressing)
		if problem := broken(d, strategy, states, busy); problem != "" {
			t.Fatalf("seed %d: %s", seed, problem)
		}
		for _, name := range d.Apply {
			states[name] = ClusterState{Progressing, now}
		}
		stuck := strategy.Kind == All && busy == 0 && len(d.Apply) == 0 && d.After.IsZero() // some have failed
		if d.Done || stuck || d.Stopped != "" && busy == 0 {
			return
		}
		now = now.Add(time.Minute)
		for _, name := range slices.Sorted(maps.Keys(states)) {
			if states[name].Status == Progressing && chance.IntN(2) == 0 {
				states[name] = ClusterState{[]ClusterStatus{Succeeded, Succeeded, Succeeded, Failed}[chance.IntN(4)], now}
			}
		}
	}
	t.Fatalf("seed %d: the rollout does not end", seed)
}

func count(states map[string]ClusterState, status ClusterStatus) int {
	n := 0
	for _, state := range states {
		if state.Status == status {
			n++
		}
	}
	return n
}

// broken says which promise a decision breaks.
func broken(d ApplyDecision, strategy Strategy, states map[string]ClusterState, busy int) string {
	if most := int(strategy.MaxConcurrency.IntVal); strategy.Kind == Progressive && busy+len(d.Apply) > most {
		return fmt.Sprintf("%d clusters are changed at a time, and %d may be", busy+len(d.Apply), most)
	}
	if strategy.Kind != All && len(d.Failed) > int(strategy.MaxFailures.IntVal) && len(d.Apply) > 0 {
		return fmt.Sprintf("%d clusters have failed, and others get the change", len(d.Failed))
	}
	for _, name := range d.Apply {
		if _, has := states[name]; has {
			return name + " gets the change twice"
		}
	}
	return ""
}
