// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staged

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fleet has clusters a to f: a is a canary by its label, and b by its claim.
func fleet() view.Fleet {
	var all []view.Cluster
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		c := view.Cluster{Name: name}
		switch name {
		case "a":
			c.Labels = map[string]string{"stage": "canary"}
		case "b":
			c.Claims = map[string]string{"stage": "canary"}
		}
		all = append(all, c)
	}
	return view.Fleet{}.WithClusters(all, nil)
}

// spec has the groups canary (a, b) and next (c), and the others.
func spec(change func(*fleetv1alpha1.PropagationRolloutSpec)) *fleetv1alpha1.PropagationRolloutSpec {
	canary := &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}
	s := &fleetv1alpha1.PropagationRolloutSpec{Groups: []fleetv1alpha1.RolloutGroup{
		{Name: "canary", LabelSelector: canary, ClaimSelector: canary}, {Name: "next", ClusterNames: []string{"c", "a"}},
	}}
	if change != nil {
		change(s)
	}
	return s
}

func plan(t *testing.T, change func(*fleetv1alpha1.PropagationRolloutSpec)) Plan {
	t.Helper()
	p, problems := CompilePlan(spec(change))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func TestGroupsAreByNamesLabelsAndClaims(t *testing.T) {
	p := plan(t, nil)
	var got []string
	for _, name := range []string{"a", "b", "c", "d"} {
		cluster, _ := fleet().ClusterNamed(name)
		n, group := p.GroupOfCluster(cluster)
		got = append(got, fmt.Sprintf("%s %d %s", name, n, group))
	}
	if diff := cmp.Diff([]string{"a 0 canary", "b 0 canary", "c 1 next", "d 2 "}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMistakesNameTheirFieldAndPause(t *testing.T) {
	for want, change := range map[string]func(*fleetv1alpha1.PropagationRolloutSpec){
		"spec.groups[1].labelSelector": func(s *fleetv1alpha1.PropagationRolloutSpec) {
			s.Groups[1].LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		},
		"spec.groups[0].claimSelector": func(s *fleetv1alpha1.PropagationRolloutSpec) {
			s.Groups[0].ClaimSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}
		},
		"spec.groups": func(s *fleetv1alpha1.PropagationRolloutSpec) {
			s.Groups[1].LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: make([]string, labelselector.TermsMax+1)},
			}}
		},
		"spec.minSuccessTime":   func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MinSuccessTime = "soon" },
		"spec.progressDeadline": func(s *fleetv1alpha1.PropagationRolloutSpec) { s.ProgressDeadline = "late" },
		"spec.maxFailures":      func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxFailures = new(intstr.FromString("some")) },
		"spec.maxConcurrency":   func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxConcurrency = new(intstr.FromInt32(0)) },
	} {
		p, problems := CompilePlan(spec(change))
		if len(problems) != 1 || problems[0].Field != want || !p.Paused {
			t.Errorf("the problems are %v (paused: %t), want one of %s", problems, p.Paused, want)
		}
	}
}

// on returns the states of clusters: - for one without the change, ~ for one that
// progresses, + for one that is healthy and ! for one that has failed.
func on(text string) map[string]ObjectState {
	states := map[string]ObjectState{}
	for each := range strings.FieldsSeq(text) {
		state := ObjectState{Updated: true, ClusterState: rollout.ClusterState{Since: noon}}
		switch each[1] {
		case '-':
			state = ObjectState{}
		case '~':
			state.Status = rollout.Progressing
		case '+':
			state.Status = rollout.Succeeded
		case '!':
			state.Status, state.Why = rollout.Failed, "it is broken."
		}
		states[each[:1]] = state
	}
	return states
}

func may(r *RolloutProgress, cluster string) bool {
	_, granted := r.GrantedSince(cluster)
	return granted
}

func TestDecide(t *testing.T) {
	all := func(*fleetv1alpha1.PropagationRolloutSpec) {}
	for name, test := range map[string]struct {
		change  func(*fleetv1alpha1.PropagationRolloutSpec)
		objects map[string]string // the states of objects
		granted string
		stage   string
		touched string
		counts  string
		stopped string
		done    bool
	}{
		"nothing is sent":       {change: all, objects: map[string]string{"web": ""}, stage: "0/0", counts: "0: 0 pending, 0 updated, 0 healthy, 0 progressing, 0 failed", done: true},
		"the first group":       {change: all, objects: map[string]string{"web": "a- b- c- d-"}, granted: "a b", touched: "web", stage: "1/3 canary", counts: "4: 4 pending, 0 updated, 0 healthy, 0 progressing, 0 failed"},
		"one is on its way":     {change: all, objects: map[string]string{"web": "a+ b~ c- d-"}, stage: "1/3 canary", counts: "4: 2 pending, 2 updated, 1 healthy, 1 progressing, 0 failed"},
		"the next group":        {change: all, objects: map[string]string{"web": "a+ b+ c- d-"}, granted: "c", touched: "web", stage: "2/3 next", counts: "4: 2 pending, 2 updated, 2 healthy, 0 progressing, 0 failed"},
		"the rest":              {change: all, objects: map[string]string{"web": "a+ b+ c+ d- e-"}, granted: "d e", touched: "web", stage: "3/3", counts: "5: 2 pending, 3 updated, 3 healthy, 0 progressing, 0 failed"},
		"all":                   {change: all, objects: map[string]string{"web": "a+ b+ c+ d+"}, stage: "3/3", counts: "4: 0 pending, 4 updated, 4 healthy, 0 progressing, 0 failed", done: true},
		"no cluster of a group": {change: all, objects: map[string]string{"web": "c+ d-"}, granted: "d", touched: "web", stage: "2/2", counts: "2: 1 pending, 1 updated, 1 healthy, 0 progressing, 0 failed"},
		"one has failed": {
			change: all, objects: map[string]string{"web": "a+ b! c- d-"}, stage: "1/3 canary",
			counts: "4: 2 pending, 2 updated, 1 healthy, 0 progressing, 1 failed", stopped: "1 failed in group canary, and maxFailures allows 0",
		},
		"one may fail": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxFailures = new(intstr.FromString("25%")) },
			objects: map[string]string{"web": "a+ b! c- d-"}, granted: "c", touched: "web", stage: "2/3 next", counts: "4: 2 pending, 2 updated, 1 healthy, 0 progressing, 1 failed",
		},
		"one may fail, and all others are healthy": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxFailures = new(intstr.FromInt32(1)) },
			objects: map[string]string{"web": "a+ b! c+ d+"}, stage: "3/3", counts: "4: 0 pending, 4 updated, 3 healthy, 0 progressing, 1 failed", done: true,
		},
		"paused": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = true },
			objects: map[string]string{"web": "a+ b+ c- d-"}, stage: "2/3 next", counts: "4: 2 pending, 2 updated, 2 healthy, 0 progressing, 0 failed",
		},
		"one at a time": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxConcurrency = new(intstr.FromInt32(1)) },
			objects: map[string]string{"web": "a- b- c-"}, granted: "a", touched: "web", stage: "1/2 canary", counts: "3: 3 pending, 0 updated, 0 healthy, 0 progressing, 0 failed",
		},
		"half of a group at a time": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxConcurrency = new(intstr.FromString("50%")) },
			objects: map[string]string{"web": "a+ b+ c+ d- e~ f-"}, granted: "d", touched: "web", stage: "3/3", counts: "6: 2 pending, 4 updated, 3 healthy, 1 progressing, 0 failed",
		},
		"not for long enough": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MinSuccessTime = "5m" },
			objects: map[string]string{"web": "a+ b+ c-"}, stage: "1/2 canary", counts: "3: 1 pending, 2 updated, 2 healthy, 0 progressing, 0 failed",
		},
		"there is time left": {
			change:  func(s *fleetv1alpha1.PropagationRolloutSpec) { s.ProgressDeadline = "10m" },
			objects: map[string]string{"web": "a+ b! c-"}, stage: "1/2 canary", counts: "3: 1 pending, 2 updated, 1 healthy, 1 progressing, 0 failed",
		},
		"another object is not healthy": {
			change: all, objects: map[string]string{"config": "a+ b+ c-", "web": "a+ b~ c-"}, stage: "1/2 canary",
			counts: "3: 1 pending, 2 updated, 1 healthy, 1 progressing, 0 failed",
		},
		"another object has a change": {
			change: all, objects: map[string]string{"config": "a- b- c-", "web": "a+ b! c+"}, granted: "a b", touched: "config", stage: "1/2 canary",
			counts: "3: 3 pending, 0 updated, 0 healthy, 0 progressing, 0 failed",
		},
		"an object is elsewhere": {
			change: all, objects: map[string]string{"config": "d-", "web": "a+ b+ c+"}, granted: "d", touched: "config", stage: "3/3",
			counts: "4: 1 pending, 3 updated, 3 healthy, 0 progressing, 0 failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRolloutProgress(plan(t, test.change))
			for object, states := range test.objects {
				r.ReportProgress(object, ObjectProgress{Change: "1", States: on(states)}, noon)
			}
			out := r.DecideRollout(fleet(), noon.Add(time.Minute))
			stage := fmt.Sprintf("%d/%d", out.Stage, out.Stages)
			if out.Group != "" {
				stage += " " + out.Group
			}
			counts := fmt.Sprintf("%d: %d pending, %d updated, %d healthy, %d progressing, %d failed",
				out.Total, out.Pending, out.UpdatedCount(), out.Healthy, out.ProgressingCount(), len(out.Failed))
			got := []any{strings.Join(out.Granted, " "), strings.Join(out.Touched, " "), stage, counts, out.Stopped, out.Done}
			want := []any{test.granted, test.touched, test.stage, test.counts, test.stopped, test.done}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsDecidedBeforeAllHaveBeenLookedAt(t *testing.T) {
	r := NewRolloutProgress(plan(t, nil), "config", "web", "held")
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a- c-")}, noon)
	r.MarkObserved("held")
	if out := r.DecideRollout(fleet(), noon); !out.Starting || may(r, "a") {
		t.Errorf("it is decided without config: %+v", out)
	}
	if !r.MarkObserved("config") {
		t.Error("that was the last one")
	}
	if out := r.DecideRollout(fleet(), noon); out.Starting || !may(r, "a") || may(r, "c") {
		t.Errorf("a gets it now: %+v", out)
	}
	if diff := cmp.Diff([]string{"web"}, r.ObjectNames()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnotherChangeBeginsAnew(t *testing.T) {
	r := NewRolloutProgress(plan(t, nil))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+ b+ c- d-")}, noon)
	r.DecideRollout(fleet(), noon)
	if !may(r, "c") {
		t.Fatal("it is the turn of c")
	}
	r.ReportProgress("web", ObjectProgress{Change: "2", States: on("a- b- c- d-")}, noon)
	if out := r.DecideRollout(fleet(), noon); may(r, "c") || strings.Join(out.Granted, " ") != "a b" {
		t.Errorf("c gets what the first group does not have: %+v", out)
	}
	r.ReportProgress("web", ObjectProgress{Change: "2", States: on("a- b- c- d-")}, noon)
	if r.DecideRollout(fleet(), noon); !may(r, "a") {
		t.Error("what was granted is forgotten")
	}
	r.SetPlan(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = true }))
	if r.DecideRollout(fleet(), noon); may(r, "a") {
		t.Error("a gets the change although it is paused")
	}
}

// TestWhoIsScaledKeepsItsTime has a cluster that was healthy not answer for some time
// after it was scaled, and then say that it is, or that it is not.
func TestWhoIsScaledKeepsItsTime(t *testing.T) {
	for answer, want := range map[string]bool{"a+ c-": true, "a~ c-": false} {
		r := NewRolloutProgress(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MinSuccessTime = "5m" }))
		silent := on("a~ c-")
		silent["a"] = ObjectState{Updated: true, Unanswered: true, ClusterState: rollout.ClusterState{Status: rollout.Progressing, Since: noon}}
		r.ReportProgress("web", ObjectProgress{Change: "1", States: silent}, noon)
		if out := r.DecideRollout(fleet(), noon); out.Healthy != 0 {
			t.Error("it has never said that it is healthy")
		}
		r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+ c-")}, noon)
		for minute := range 4 {
			r.ReportProgress("web", ObjectProgress{Change: "1", States: silent}, noon.Add(time.Duration(minute)*time.Minute))
		}
		r.ReportProgress("web", ObjectProgress{Change: "1", States: on(answer)}, noon.Add(5*time.Minute))
		if r.DecideRollout(fleet(), noon.Add(5*time.Minute)); may(r, "c") != want {
			t.Errorf("it answers %q: c gets the change: %t, want %t", answer, !want, want)
		}
		r.ReportProgress("web", ObjectProgress{Change: "2", States: silent}, noon.Add(5*time.Minute))
		if out := r.DecideRollout(fleet(), noon.Add(time.Hour)); out.Healthy != 0 {
			t.Error("it has not said anything of another change")
		}
	}
}

// TestWhatCannotBeUndoneIsKeptFromOthers has an object that had no revision before,
// and a cluster that may get it already.
func TestWhatCannotBeUndoneIsKeptFromOthers(t *testing.T) {
	r := NewRolloutProgress(plan(t, nil))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+ b- c-")}, noon)
	r.ReportProgress("config", ObjectProgress{Change: "1", States: on("a+ b- c-")}, noon)
	if r.DecideRollout(fleet(), noon); !may(r, "b") {
		t.Fatal("it is the turn of b")
	}
	r.ReportProgress("web", ObjectProgress{Change: "1", Held: true, States: on("a+ b- c-")}, noon)
	if out := r.DecideRollout(fleet(), noon); may(r, "b") || r.HeldObjectCount() != 1 || out.Done {
		t.Errorf("b gets what is to be undone: %+v", out)
	}
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+ b- c-")}, noon)
	if r.DecideRollout(fleet(), noon); !may(r, "b") || r.HeldObjectCount() != 0 {
		t.Error("it does not go on")
	}
	r.ReportProgress("config", ObjectProgress{Change: "1", States: on("a+ b+ c+")}, noon)
	r.ReportProgress("web", ObjectProgress{Change: "1", Held: true, States: on("a+ b+ c+")}, noon)
	if out := r.DecideRollout(fleet(), noon); r.HeldObjectCount() != 0 || !out.Done {
		t.Errorf("all have it, and it is kept from others: %+v", out)
	}
}

// TestANewObjectBeginsWithTheFirstGroup has it come while a later group gets a change,
// and several of them come one after the other.
func TestANewObjectBeginsWithTheFirstGroup(t *testing.T) {
	r := NewRolloutProgress(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.MaxFailures = new(intstr.FromInt32(1)) }))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+ b+ c- d-")}, noon)
	r.DecideRollout(fleet(), noon)
	r.ReportFailure("web", "c", "no namespace")
	if r.DecideRollout(fleet(), noon); !may(r, "c") || !may(r, "d") {
		t.Fatal("c may fail, and it is the turn of d")
	}
	for n, name := range []string{"config", "secret", "service"} {
		r.ReportProgress(name, ObjectProgress{Change: "1", States: on("a- b- c- d-")}, noon)
		out := r.DecideRollout(fleet(), noon)
		if got := strings.Join(out.Granted, " "); got != "a b" || may(r, "c") || may(r, "d") {
			t.Errorf("%s goes to %s, want a and b", name, got)
		}
		if len(out.Touched) != n+1 {
			t.Errorf("%v are touched", out.Touched)
		}
		if out := r.DecideRollout(fleet(), noon); len(out.Touched) > 0 {
			t.Errorf("%v are touched again", out.Touched)
		}
	}
}

func TestWhatCannotBeSentHasFailed(t *testing.T) {
	r := NewRolloutProgress(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.ProgressDeadline = "10m" }))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a- c-")}, noon)
	r.DecideRollout(fleet(), noon)
	r.ReportFailure("web", "a", "no namespace")
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a- c-")}, noon)
	if out := r.DecideRollout(fleet(), noon); len(out.Failed) > 0 || !out.After.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("it has time left: %+v", out)
	}
	out := r.DecideRollout(fleet(), noon.Add(10*time.Minute))
	if out.Failed["a"] != "web: no namespace" || out.Stopped == "" {
		t.Errorf("it has failed: %+v", out)
	}
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+ c-")}, noon)
	if out := r.DecideRollout(fleet(), noon.Add(10*time.Minute)); len(out.Failed) > 0 || !may(r, "c") {
		t.Errorf("it has been sent: %+v", out)
	}
	r.ForgetObject("web")
	if out := r.DecideRollout(fleet(), noon); out.Total != 0 {
		t.Errorf("it is gone: %+v", out)
	}
}

func TestWhoFailsLaterHasTheTimeAgain(t *testing.T) {
	r := NewRolloutProgress(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.ProgressDeadline = "10m" }))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a~")}, noon.Add(9*time.Minute))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a+")}, noon.Add(9*time.Minute))
	r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a~")}, noon.Add(time.Hour))
	if out := r.DecideRollout(fleet(), noon.Add(time.Hour)); len(out.Failed) > 0 || !out.After.Equal(noon.Add(70*time.Minute)) {
		t.Errorf("it was healthy: %+v", out)
	}
}

// TestNoClusterHoldsUpOthersByTimes has a cluster that says again and again that it was
// sent the change just now, while it fails and does not in turn.
func TestNoClusterHoldsUpOthersByTimes(t *testing.T) {
	r := NewRolloutProgress(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.ProgressDeadline = "10m" }))
	now, status := noon, []rollout.ClusterStatus{rollout.Failed, rollout.Progressing}
	for turn := range 11 {
		now = now.Add(time.Minute)
		r.ReportProgress("web", ObjectProgress{Change: "2", States: map[string]ObjectState{"a": {Updated: true, ClusterState: rollout.ClusterState{Status: status[turn%2], Since: now}}}}, now)
	}
	if out := r.DecideRollout(fleet(), now); out.Failed["a"] == "" {
		t.Errorf("after ten minutes a has not failed: %+v", out)
	}
}

// TestRolloutsKeepTheirPromises plays rollouts by chance: changes of two objects,
// clusters that fail and recover, restarts, pauses. A failure names the seed.
func TestRolloutsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(100) {
		chance := rand.New(rand.NewPCG(seed, 2))
		g := &game{T: t, seed: seed, chance: chance, now: noon, concurrency: 1 + chance.IntN(2), failures: chance.IntN(2), changes: 3}
		g.plan = plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) {
			s.MaxConcurrency, s.MaxFailures = new(intstr.FromInt(g.concurrency)), new(intstr.FromInt(g.failures))
		})
		g.play()
	}
}

// game is a hub with clusters that have objects.
type game struct {
	*testing.T
	seed                           uint64
	chance                         *rand.Rand
	plan                           Plan
	now                            time.Time
	concurrency, failures, changes int
	change                         map[string]int                   // by object, the latest
	has                            map[string]map[string]int        // by cluster and object, the change
	status                         map[string]rollout.ClusterStatus // by cluster
	reported                       map[string]int                   // as change, when somebody looked last
	rollout                        *RolloutProgress
}

func (g *game) play() {
	g.change, g.has, g.status = map[string]int{"web": 1, "config": 1}, map[string]map[string]int{}, map[string]rollout.ClusterStatus{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		g.has[name], g.status[name] = map[string]int{"web": 1, "config": 1}, rollout.Succeeded
	}
	g.restart()
	for range 2000 {
		g.now = g.now.Add(time.Minute)
		switch g.chance.IntN(12) {
		case 0:
			if g.changes > 0 {
				g.changes--
				g.change[[]string{"web", "config"}[g.chance.IntN(2)]]++
			}
		case 1:
			g.restart()
		}
		out := g.step()
		if out.Done && g.changes == 0 {
			return
		}
		for name := range g.status {
			if g.status[name] != rollout.Succeeded && g.chance.IntN(3) == 0 {
				g.status[name] = []rollout.ClusterStatus{rollout.Succeeded, rollout.Succeeded, rollout.Failed}[g.chance.IntN(3)]
			}
		}
	}
	g.Fatalf("seed %d: the rollout does not end: %v of %v", g.seed, g.has, g.change)
}

func (g *game) restart() {
	g.rollout, g.reported = NewRolloutProgress(g.plan, "web", "config"), maps.Clone(g.change)
}

// step reports the objects one after the other, and writes what each may.
func (g *game) step() RolloutOutcome {
	var out RolloutOutcome
	for _, object := range []string{"web", "config"} {
		states := map[string]ObjectState{}
		for name, has := range g.has {
			s := ObjectState{Updated: has[object] == g.change[object], ClusterState: rollout.ClusterState{Status: g.status[name], Since: g.now}}
			if !s.Updated {
				s = ObjectState{}
			}
			states[name] = s
		}
		g.reported[object] = g.change[object]
		g.rollout.ReportProgress(object, ObjectProgress{Change: fmt.Sprint(g.change[object]), States: states}, g.now)
		out = g.rollout.DecideRollout(fleet(), g.now)
		for name := range g.has {
			if g.has[name][object] != g.change[object] && may(g.rollout, name) {
				g.write(name, object)
			}
		}
	}
	return out
}

// write checks that a cluster may be written to, and does it.
func (g *game) write(name, object string) {
	g.Helper()
	if out := g.rollout.DecideRollout(fleet(), g.now); out.Starting {
		g.Fatalf("seed %d: %s gets a change before all is known", g.seed, name)
	}
	mine, failed, busy := g.group(name), 0, 0
	for other := range g.has {
		switch group := g.group(other); {
		case group < mine:
			failed += g.before(name, other)
		case group == mine && other != name && may(g.rollout, other) && g.status[other] != rollout.Failed: // that takes no room
			busy++
		}
	}
	if failed > g.failures {
		g.Fatalf("seed %d: %s gets a change, and %d clusters have failed", g.seed, name, failed)
	}
	if busy >= g.concurrency {
		g.Fatalf("seed %d: %s gets a change, and %d other clusters do", g.seed, name, busy)
	}
	g.has[name][object] = g.change[object]
	g.status[name] = rollout.Progressing
}

// before checks a cluster whose group is before that of the one which gets a
// change, and returns 1 if it has failed.
func (g *game) before(name, other string) int {
	g.Helper()
	has := g.has[other]
	switch {
	case has["web"] != g.reported["web"] || has["config"] != g.reported["config"]:
		g.Fatalf("seed %d: %s gets a change, and %s of an earlier group does not have it", g.seed, name, other)
	case g.status[other] == rollout.Progressing:
		g.Fatalf("seed %d: %s gets a change, and %s of an earlier group is not healthy", g.seed, name, other)
	case g.status[other] == rollout.Failed:
		return 1
	}
	return 0
}

func (g *game) group(name string) int {
	cluster, _ := fleet().ClusterNamed(name)
	n, _ := g.plan.GroupOfCluster(cluster)
	return n
}

// TestTheOrderOfReportsDoesNotMatter reports the same in another order.
func TestTheOrderOfReportsDoesNotMatter(t *testing.T) {
	names, texts := []string{"one", "two", "three"}, []string{"a+ b- d-", "a+ b+ c-", "b+ e-"}
	var first RolloutOutcome
	for n, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		r := NewRolloutProgress(plan(t, nil), names...)
		for _, i := range order {
			r.ReportProgress(names[i], ObjectProgress{Change: "1", States: on(texts[i])}, noon)
		}
		out := r.DecideRollout(fleet(), noon)
		slices.Sort(out.Granted)
		if n == 0 {
			first = out
		}
		if diff := cmp.Diff(first, out); diff != "" {
			t.Errorf("order %v (-first +got):\n%s", order, diff)
		}
	}
}

// TestOnlyNewsAreNews reports an object again and again.
func TestOnlyNewsAreNews(t *testing.T) {
	r := NewRolloutProgress(plan(t, nil), "web", "config")
	for i, step := range []struct {
		name string
		is   ObjectProgress
		news bool
	}{
		{"web", ObjectProgress{Change: "1", States: on("a- b-")}, true},
		{"web", ObjectProgress{Change: "1", States: on("a- b-")}, false},
		{"config", ObjectProgress{Change: "1"}, true}, // the last that is awaited
		{"config", ObjectProgress{Change: "1"}, false},
		{"web", ObjectProgress{Change: "1", States: on("a~ b-")}, true},
		{"web", ObjectProgress{Change: "1", States: on("a+ b-")}, true},
		{"web", ObjectProgress{Change: "1", States: on("a+ b-")}, false},
		{"web", ObjectProgress{Change: "1", Held: true, States: on("a+ b-")}, true},
		{"web", ObjectProgress{Change: "1", Held: true, States: on("a+ b-")}, false},
		{"web", ObjectProgress{Change: "2", Held: true, States: on("a+ b-")}, true},
		{"web", ObjectProgress{Change: "2", Held: true, States: on("a+")}, true},
	} {
		if news := r.ReportProgress(step.name, step.is, noon.Add(time.Duration(i)*time.Minute)); news != step.news {
			t.Errorf("report %d is news: %t, want %t", i, news, step.news)
		}
	}
}

// TestGrantsEndAtOnce takes back whose turn it is before anything else is decided.
func TestGrantsEndAtOnce(t *testing.T) {
	for name, end := range map[string]func(*RolloutProgress){
		"paused": func(r *RolloutProgress) {
			r.SetPlan(plan(t, func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = true }))
		},
		"held": func(r *RolloutProgress) {
			r.ReportProgress("web", ObjectProgress{Change: "1", Held: true, States: on("a- b-")}, noon)
		},
		"another change": func(r *RolloutProgress) {
			r.ReportProgress("web", ObjectProgress{Change: "2", States: on("a- b-")}, noon)
		},
	} {
		r := NewRolloutProgress(plan(t, nil))
		r.ReportProgress("web", ObjectProgress{Change: "1", States: on("a- b-")}, noon)
		r.DecideRollout(fleet(), noon)
		if !may(r, "a") {
			t.Fatal("a does not get the change")
		}
		if end(r); may(r, "a") {
			t.Errorf("%s: a still gets the change", name)
		}
	}
}
