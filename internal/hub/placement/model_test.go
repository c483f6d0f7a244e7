// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// TestOnlyPlacementsThatCanCareAreLookedAt counts them, of a thousand.
func TestOnlyPlacementsThatCanCareAreLookedAt(t *testing.T) {
	const all, gold, readers = 1000, 10, 5
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cluster := func(label, message string) view.Cluster {
		return view.FromCluster(&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"tier": label}},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Message: message},
			}},
		}, nil)
	}
	cases := map[string]struct {
		reason        string
		before, after view.Cluster
		want          int
	}{
		"a heartbeat":                {reason: "expressions may read what has changed", before: cluster("gold", "a"), after: cluster("gold", "b"), want: readers},
		"a label":                    {reason: "the others do not ask about it", before: cluster("gold", "a"), after: cluster("iron", "a"), want: gold},
		"a label that nobody wants":  {reason: "nothing is gained and nothing lost", before: cluster("iron", "a"), after: cluster("lead", "a"), want: 0},
		"a cluster that was unknown": {reason: "all may choose it but those that want gold", after: cluster("iron", "a"), want: all - gold},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newFleetModel()
			if tc.before.Name != "" {
				m.changed(now, func() { m.setCluster(tc.before) })
			}
			for i := range all {
				var p clusterv1beta1.ClusterPredicate
				switch {
				case i < gold:
					p.RequiredClusterSelector.LabelSelector.MatchLabels = map[string]string{"tier": "gold"}
				case i < gold+readers:
					p.RequiredClusterSelector.CelSelector.CelExpressions = []string{`managedCluster.status.conditions.exists(c, c.message == "a")`}
				}
				track(t, m, strconv.Itoa(i), p)
			}
			affected := m.changed(now, func() { m.setCluster(tc.after) })
			if len(affected) != tc.want {
				t.Errorf("%s: %d placements are looked at, want %d", tc.reason, len(affected), tc.want)
			}
		})
	}
}

// changed makes a change, and returns the Placements that can care about it and all
// before.
func (m *fleetModel) changed(now time.Time, change func()) []types.NamespacedName {
	change()
	var affected []types.NamespacedName
	for {
		next, there := m.nextChange()
		if !there {
			return affected
		}
		for len(next.asked) > 0 {
			if key, cares := next.ask(now); cares {
				affected = append(affected, key)
			}
		}
		m.asked(next, 0)
	}
}

func track(t *testing.T, m *fleetModel, name string, p clusterv1beta1.ClusterPredicate) {
	t.Helper()
	request, problems := placement.CompilePlacement(&clusterv1beta1.Placement{
		Spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(1)), Predicates: []clusterv1beta1.ClusterPredicate{p}},
	}, []scheduler.ClusterSet{{Name: "all", Clusters: labels.Everything()}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m.trackPlacement(types.NamespacedName{Namespace: "apps", Name: name}, trackedPlacement{request: request})
}

// TestTheSnapshotIsWhatIsKnown changes a little at a time, and sees that the
// fleet is as if it had been made anew.
func TestTheSnapshotIsWhatIsKnown(t *testing.T) {
	m := newFleetModel()
	want := map[string]int{}
	name := func(i int) string { return fmt.Sprintf("c%02d", i%17) }
	for i := range 200 {
		switch {
		case i%5 == 4:
			m.forgetCluster(name(i * 7))
			delete(want, name(i*7))
		case i%3 == 0:
			m.setCluster(view.Cluster{Name: name(i * 11)})
			want[name(i*11)] = 0
		}
		m.sawDecision(types.NamespacedName{Name: "d"}, strconv.Itoa(i+1), saying(name(i), name(i+1)))
		if i%2 == 0 {
			continue // several changes at once
		}
		for c := range want {
			want[c] = 0
		}
		for _, c := range []string{name(i), name(i + 1)} {
			if _, known := want[c]; known {
				want[c] = 1
			}
		}
		got := map[string]int{}
		fleet, _ := m.snapshot()
		var order []string
		for k := range fleet.Len() {
			order = append(order, fleet.ClusterAt(k).Name)
			got[fleet.ClusterAt(k).Name] = fleet.ClusterAt(k).Decisions
		}
		if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(order, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("after %d changes the fleet is %v (-want +got):\n%s", i, order, diff)
		}
	}
}

// TestOurOwnWritesAreNoNews has events that come late, early and from others.
func TestOurOwnWritesAreNoNews(t *testing.T) {
	key := types.NamespacedName{Namespace: "apps", Name: "p-decision-1"}
	a, b := saying("a"), saying("b")
	cases := map[string]struct {
		reason string
		happen func(*fleetModel) bool // tells whether the last thing is news
		want   bool
		chosen string
	}{
		"a decision that was there": {reason: "nothing is known yet", happen: func(m *fleetModel) bool { return m.sawDecision(key, "5", a) }, want: true, chosen: "a"},
		"the same again":            {reason: "it is known", happen: func(m *fleetModel) bool { m.sawDecision(key, "5", a); return m.sawDecision(key, "6", a) }, chosen: "a"},
		"our write": {reason: "we know it from the answer", chosen: "a", happen: func(m *fleetModel) bool {
			m.beginDecisionWrite(key, a)
			m.finishDecisionWrite(key, "6")
			return m.sawDecision(key, "6", a)
		}},
		"our creation, late": {reason: "it is older than the status", chosen: "a", happen: func(m *fleetModel) bool {
			m.beginDecisionWrite(key, a)
			m.finishDecisionWrite(key, "6")
			return m.sawDecision(key, "5", decisionContent{})
		}},
		"our write before the answer": {reason: "it is what we are writing", chosen: "a", happen: func(m *fleetModel) bool {
			m.beginDecisionWrite(key, a)
			defer m.finishDecisionWrite(key, "6")
			return m.sawDecision(key, "6", a)
		}},
		"somebody else's after ours": {reason: "it is to be put right", want: true, chosen: "b", happen: func(m *fleetModel) bool {
			m.beginDecisionWrite(key, a)
			defer m.finishDecisionWrite(key, "6")
			return m.sawDecision(key, "7", b)
		}},
		"a write that failed": {reason: "nothing has changed", want: true, chosen: "b", happen: func(m *fleetModel) bool {
			m.beginDecisionWrite(key, a)
			m.finishDecisionWrite(key, "")
			return m.sawDecision(key, "7", b)
		}},
		"our creation before the answer": {reason: "its status follows", chosen: "a", happen: func(m *fleetModel) bool {
			m.beginDecisionWrite(key, a)
			defer m.finishDecisionWrite(key, "6")
			return m.sawDecision(key, "5", decisionContent{fingerprint: "unwritten", unwritten: true})
		}},
		"one that somebody takes the status from": {reason: "it has to come back", want: true, happen: func(m *fleetModel) bool {
			m.sawDecision(key, "5", a)
			return m.sawDecision(key, "6", decisionContent{fingerprint: "unwritten", unwritten: true})
		}},
		"one that somebody deletes": {reason: "it has to come back", want: true, happen: func(m *fleetModel) bool {
			m.sawDecision(key, "5", a)
			return m.lostDecision(key)
		}},
		"one that we deleted": {reason: "we know", happen: func(m *fleetModel) bool {
			m.sawDecision(key, "5", a)
			m.lostDecision(key)
			return m.lostDecision(key)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newFleetModel()
			for _, c := range []string{"a", "b"} {
				m.setCluster(view.Cluster{Name: c})
			}
			if got := tc.happen(m); got != tc.want {
				t.Errorf("%s: news %t, want %t", tc.reason, got, tc.want)
			}
			fleet, _ := m.snapshot()
			for i := range fleet.Len() {
				c := fleet.ClusterAt(i)
				if (c.Decisions == 1) != (c.Name == tc.chosen) {
					t.Errorf("%s: %s is counted %d times, chosen is %q", tc.reason, c.Name, c.Decisions, tc.chosen)
				}
			}
		})
	}
}

// TestAStatusThatSomebodyTakesBringsThePlacementBack tells the controller of it,
// as its watch does.
func TestAStatusThatSomebodyTakesBringsThePlacementBack(t *testing.T) {
	c := NewSchedulingController(nil, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), events.NewDiscardRecorder())
	d := &clusterv1beta1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "p-decision-1", ResourceVersion: "5"},
		Status:     clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: "a"}}},
	}
	c.observeDecision(d, false)
	without := d.DeepCopy()
	without.ResourceVersion, without.Status.Decisions = "6", nil
	want := []types.NamespacedName{{Namespace: "apps", Name: "p"}}
	if got := c.observeDecision(without, false); !slices.Equal(got, want) {
		t.Errorf("brought back are %v, want %v", got, want)
	}
}

// TestWhatIsGoneLeavesNothingBehind is about memory.
func TestWhatIsGoneLeavesNothingBehind(t *testing.T) {
	m, key := newFleetModel(), types.NamespacedName{Namespace: "apps", Name: "p-decision-1"}
	m.setScores("a", "demo", scoreSet{})
	m.setScores("a", "demo", nil)
	m.sawDecision(key, "5", saying("a"))
	m.lostDecision(key)
	m.beginDecisionWrite(key, saying("a"))
	m.finishDecisionWrite(key, "") // it failed
	m.beginDecisionWrite(key, saying("a"))
	m.lostDecision(key) // somebody has deleted it before the answer
	m.finishDecisionWrite(key, "6")
	if len(m.scores)+len(m.chosen)+len(m.counts) > 0 {
		t.Errorf("left are scores %v, decisions %v and counts %v, want none", m.scores, m.chosen, m.counts)
	}
}

// saying returns a decision with these clusters.
func saying(clusters ...string) decisionContent {
	return decisionContent{clusters: clusters, fingerprint: fmt.Sprint(clusters)}
}

// TestWhoIsAboutToChooseLooksAgain changes the group of a cluster that is being
// chosen: the choice may have been made by its label before.
func TestWhoIsAboutToChooseLooksAgain(t *testing.T) {
	p := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{
		GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{{
			GroupName: "canary", ClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}},
		}}},
	}}}
	request, problems := placement.CompilePlacement(p, []scheduler.ClusterSet{{Clusters: labels.Everything()}})
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	now := time.Unix(0, 0)
	for deciding, want := range map[bool]int{true: 1, false: 0} {
		m := newFleetModel()
		m.changed(now, func() { m.setCluster(view.Cluster{Name: "c"}) })
		m.trackPlacement(types.NamespacedName{Name: "p"}, trackedPlacement{request: request, deciding: deciding})
		if got := len(m.changed(now, func() { m.setCluster(view.Cluster{Name: "c", Labels: map[string]string{"tier": "canary"}}) })); got != want {
			t.Errorf("deciding %t: %d Placements are brought back, want %d", deciding, got, want)
		}
	}
}

// TestWhoLacksClustersIsBroughtBack takes a cluster away that it could not have
// had: the reason why it has none may be another one.
func TestWhoLacksClustersIsBroughtBack(t *testing.T) {
	p := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{
		RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}},
	}}}}
	request, problems := placement.CompilePlacement(p, []scheduler.ClusterSet{{Clusters: labels.Everything()}})
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	now := time.Unix(0, 0)
	for wanting, want := range map[bool]int{true: 1, false: 0} {
		m := newFleetModel()
		m.changed(now, func() { m.setCluster(view.Cluster{Name: "c"}) })
		m.trackPlacement(types.NamespacedName{Name: "p"}, trackedPlacement{request: request, wanting: wanting})
		if got := len(m.changed(now, func() { m.forgetCluster("c") })); got != want {
			t.Errorf("wanting %t: %d Placements are brought back, want %d", wanting, got, want)
		}
	}
}
