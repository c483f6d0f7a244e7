// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

func input(uid string, has int32) binding.PlacementInput {
	in := binding.PlacementInput{UID: types.UID(uid), Requirements: &workv1alpha2.ReplicaRequirements{
		ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}
	if has != 0 {
		in.Previous = []workv1alpha2.TargetCluster{{Name: "a", Replicas: has}}
	}
	return in
}

// placed is an object in a fleet with cluster a.
func placed(in binding.PlacementInput) placedInput {
	return placedInputOf(view.NewFleet(view.Cluster{Name: "a"}), in)
}

func to(replicas int32) []workv1alpha2.TargetCluster {
	return []workv1alpha2.TargetCluster{{Name: "a", Replicas: replicas}}
}

func TestAssumptions(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAssumptions()
	sees := func(reason string, in binding.PlacementInput, at time.Time, want int64) {
		t.Helper()
		a.decideWithAssumptions(placed(in), at, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
			if got := uses["a"][corev1.ResourceCPU] / 1000; got != want {
				t.Errorf("%s: %d CPUs are assumed, want %d", reason, got, want)
			}
			return nil, false
		})
	}
	gets := func(in binding.PlacementInput, replicas int32) {
		a.decideWithAssumptions(placed(in), now, func(map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) { return to(replicas), true })
	}
	sees("nothing was decided", input("x", 0), now, 0)

	gets(input("x", 0), 3)
	sees("others see what was decided", input("y", 0), now, 3)
	sees("a decision that was not written does not count for the object itself", input("x", 0), now, 0)

	gets(input("x", 3), 5)
	sees("one that was written does", input("x", 3), now, 3)
	gets(input("x", 3), 5)
	sees("what was decided since the first report counts", input("y", 0), now, 5)
	gets(input("x", 5), 1)
	sees("an object that shrinks takes what it still has more", input("y", 0), now, 1)

	gets(input("y", 4), 6)
	sees("what an object had before is reported already", input("z", 0), now, 1+2)
	sees("after a while all is reported", input("z", 0), now.Add(assumedMax), 0)
	if len(a.objects)+len(a.order) != 0 {
		t.Errorf("%d assumptions are kept for ever", len(a.objects))
	}
}

// TestABindingTakesNoRoomByItsWord has bindings that say of clusters what was not decided:
// that changes nothing for others.
func TestABindingTakesNoRoomByItsWord(t *testing.T) {
	now := time.Unix(1000, 0)
	const many = 1_000_000
	for name, attack := range map[string]func(a *assumptions){
		"after a decision, and nothing can be decided any more": func(a *assumptions) {
			decides(a, input("x", 0), now, to(3))
			decides(a, input("x", many), now, nil)
		},
		"after a decision, and it is confirmed": func(a *assumptions) {
			decides(a, input("x", 0), now, to(3))
			decides(a, input("x", many), now, to(many))
			decides(a, input("x", many), now, to(many))
		},
		"that it had less than nothing": func(a *assumptions) { decides(a, input("x", -many), now, to(3)) },
		"that each replica needs much more": func(a *assumptions) {
			decides(a, input("x", 0), now, to(3))
			greedy := input("x", 3)
			greedy.Requirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1M")}}
			decides(a, greedy, now, nil)
		},
	} {
		a := newAssumptions()
		attack(a)
		a.decideWithAssumptions(placed(input("y", 0)), now, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
			if got := uses["a"][corev1.ResourceCPU] / 1000; got != 3 {
				t.Errorf("%s: others see %d CPUs assumed, want the 3 that were decided", name, got)
			}
			return nil, false
		})
	}
}

// decides has clusters decided for an object; nil decides nothing.
func decides(a *assumptions, in binding.PlacementInput, at time.Time, clusters []workv1alpha2.TargetCluster) {
	a.decideWithAssumptions(placed(in), at, func(map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) { return clusters, clusters != nil })
}

// What is placed as a whole takes what all its parts need.
func TestPartsAreAssumed(t *testing.T) {
	now := time.Unix(1000, 0)
	a, cpu := newAssumptions(), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	in := binding.PlacementInput{UID: "x", Components: []workv1alpha2.Component{
		{Name: "job", Replicas: 1, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: cpu}}, {Name: "task", Replicas: 4},
	}}
	has := func(job, task int32) []workv1alpha2.TargetCluster {
		return []workv1alpha2.TargetCluster{{Name: "a", Components: []workv1alpha2.TargetComponent{{Name: "job", Replicas: job}, {Name: "task", Replicas: task}}}}
	}
	a.decideWithAssumptions(placed(in), now, func(map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) { return has(3, 4), true })
	in.Previous = has(3, 4)
	a.decideWithAssumptions(placed(in), now, func(map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) { return has(3, 6), true })
	a.decideWithAssumptions(placed(input("y", 0)), now, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
		if pods, cpu := uses["a"][corev1.ResourcePods]/1000, uses["a"][corev1.ResourceCPU]/1000; pods != 9 || cpu != 3 {
			t.Errorf("%d pods and %d CPUs are assumed, want 9 and 3", pods, cpu)
		}
		return nil, false
	})
}

// TestNoRequestMakesAFleetLookEmptyOrFull has bindings whose replicas request less than nothing, or more than
// there are numbers: others see no more room by the first, and what it was once the second are gone.
func TestNoRequestMakesAFleetLookEmptyOrFull(t *testing.T) {
	now := time.Unix(1000, 0)
	asks := func(uid, cpu string) binding.PlacementInput {
		in := input(uid, 0)
		in.Requirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		return in
	}
	a := newAssumptions()
	sees := func(reason string, at time.Time, want int64) {
		t.Helper()
		a.decideWithAssumptions(placed(input("y", 0)), at, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
			if got := uses["a"][corev1.ResourceCPU]; got != want {
				t.Errorf("%s: %d thousandths of a CPU are assumed, want %d", reason, got, want)
			}
			return nil, false
		})
	}
	decides(a, asks("x", "1"), now, to(3))
	decides(a, asks("less", "-1000000"), now, to(1000))
	sees("less than nothing", now, 3000)
	for _, uid := range []string{"more", "most"} {
		decides(a, asks(uid, "9000P"), now, to(math.MaxInt32))
	}
	sees("more than numbers can say", now, math.MaxInt64)
	for _, uid := range []string{"more", "most"} {
		decides(a, asks(uid, "1"), now, to(0))
	}
	sees("what was too much is gone", now, 3000)
	sees("all is reported", now.Add(assumedMax), 0)
	if len(a.uses.byCluster)+len(a.uses.sums) != 0 {
		t.Errorf("%v are kept for ever", a.uses.byCluster)
	}
}

// TestWhoDecidesAgainTakesNoRoomForLonger has a binding decided for again and again, with one replica less each
// time: what was assigned first is reported by then.
func TestWhoDecidesAgainTakesNoRoomForLonger(t *testing.T) {
	start := time.Unix(1000, 0)
	a := newAssumptions()
	const many = 1000
	decides(a, input("x", 0), start, to(many))
	for i := range int32(5) {
		at := start.Add(time.Duration(i+1) * (assumedMax - time.Second))
		decides(a, input("x", many-i), at, to(many-i-1))
		a.decideWithAssumptions(placed(input("y", 0)), at, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
			if got := uses["a"][corev1.ResourceCPU] / 1000; i > 0 && got != 0 {
				t.Errorf("%v after it was assigned, others see %d CPUs assumed", at.Sub(start), got)
			}
			return nil, false
		})
	}
	at := start.Add(6 * assumedMax)
	decides(a, input("x", many-5), at, to(many+7))
	a.decideWithAssumptions(placed(input("y", 0)), at, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
		if got := uses["a"][corev1.ResourceCPU] / 1000; got != 12 {
			t.Errorf("others see %d CPUs assumed of an object that has grown by 12", got)
		}
		return nil, false
	})
}

// TestOnlyGrowthIsAssumed has an object of 900 replicas get one more before a minute is over, again and again; and leave
// its cluster for a moment.
func TestOnlyGrowthIsAssumed(t *testing.T) {
	start := time.Unix(1000, 0)
	const many = 900
	others := func(a *assumptions, at time.Time, most int64, reason string) {
		t.Helper()
		a.decideWithAssumptions(placed(input("y", 0)), at, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
			if got := uses["a"][corev1.ResourceCPU] / 1000; got > most {
				t.Errorf("%s: others see %d CPUs assumed %v after the first %d, want at most %d", reason, got, at.Sub(start), many, most)
			}
			return nil, false
		})
	}
	for step, most := range map[time.Duration]int64{50 * time.Second: 2, 10 * time.Second: 12} {
		a := newAssumptions()
		at := start
		for n := range int32(20) {
			decides(a, input("x", min(n, 1)*(many+n-1)), at, to(many+n))
			if at.Sub(start) >= assumedMax {
				others(a, at, most, fmt.Sprintf("one more every %v", step))
			}
			at = at.Add(step)
		}
		others(a, at.Add(2*assumedMax), 0, "it grows no more")
		if len(a.objects)+len(a.order)+len(a.uses.sums) != 0 {
			t.Errorf("%d assumptions are kept for ever", len(a.objects))
		}
	}

	a := newAssumptions()
	elsewhere := []workv1alpha2.TargetCluster{{Name: "b", Replicas: 1}}
	decides(a, input("x", 0), start, to(many))
	for n := range 10 {
		at := start.Add(time.Duration(n+1) * (assumedMax - time.Second))
		decides(a, input("x", many), at, elsewhere)
		decides(a, input("x", 0), at.Add(time.Second), to(many))
		others(a, at.Add(time.Second), 0, "away and back")
	}
	a = newAssumptions()
	decides(a, input("x", 0), start, to(many))
	decides(a, input("x", many), start.Add(time.Second), to(2*many))
	others(a, start.Add(assumedMax), many, "it has doubled")
	a.decideWithAssumptions(placed(input("y", 0)), start.Add(assumedMax), func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
		if got := uses["a"][corev1.ResourceCPU] / 1000; got != many {
			t.Errorf("others see %d CPUs assumed of an object that has just grown by %d", got, many)
		}
		return nil, false
	})
}

// TestWhatABindingSaysTakesNoTime has a binding say that it is in all clusters, with many parts that request many resources
// each. Nothing can be decided for it. All others wait while that is counted.
func TestWhatABindingSaysTakesNoTime(t *testing.T) {
	const clusters, parts, names = 300, 50, 20
	now := time.Unix(1000, 0)
	a := newAssumptions()
	var fleet []view.Cluster
	in := binding.PlacementInput{UID: "x"}
	for n := range parts {
		requests := corev1.ResourceList{}
		for i := range names {
			requests[corev1.ResourceName(fmt.Sprintf("example.com/%d-%d", n, i))] = resource.MustParse("1")
		}
		in.Components = append(in.Components, workv1alpha2.Component{Name: fmt.Sprint(n), Replicas: 1, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: requests}})
	}
	for i := range clusters {
		said := workv1alpha2.TargetCluster{Name: fmt.Sprint(i)}
		for n := range parts {
			said.Components = append(said.Components, workv1alpha2.TargetComponent{Name: fmt.Sprint(n), Replicas: 2})
		}
		fleet = append(fleet, view.Cluster{Name: said.Name})
		in.Previous = append(in.Previous, said)
	}
	few := in
	few.Previous = in.Previous[:1]
	for _, step := range []struct {
		reason  string
		in      binding.PlacementInput
		decided []workv1alpha2.TargetCluster
		most    int
	}{
		{"a binding that is not known", in, nil, 0},
		{"one cluster is decided", few, in.Previous[:1], 0},
		{"it says all of them", in, nil, parts*names + 1},
		{"it says all of them again", in, nil, parts*names + 1},
	} {
		a.decideWithAssumptions(placedInputOf(view.NewFleet(fleet...), step.in), now, func(map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
			if counted := len(a.uses.sums); counted > step.most {
				t.Errorf("%s: %d amounts are counted, want at most %d", step.reason, counted, step.most)
			}
			return step.decided, step.decided != nil
		})
	}
}

// TestClustersThatAreNoneTakeNoTime has a binding name thousands of clusters that do not exist.
func TestClustersThatAreNoneTakeNoTime(t *testing.T) {
	in := input("x", 3)
	for i := range 10_000 {
		in.Previous = append(in.Previous, workv1alpha2.TargetCluster{Name: fmt.Sprintf("none-%d", i), Replicas: 1})
	}
	if says := placed(in).says; len(says) != 1 || says["a"].Replicas != 3 {
		t.Errorf("%d clusters are looked at, want the one of the fleet", len(says))
	}
}
