// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cli/fleet"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// state is a namespace with all clusters.
func state(clusters ...view.Cluster) *fleet.NamespaceState {
	all := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	all.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{
		SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{},
	}
	return &fleet.NamespaceState{
		Clusters: view.NewFleet(clusters...), Sets: map[string]*clusterv1beta2.ManagedClusterSet{"all": all},
		Bindings: []clusterv1beta2.ManagedClusterSetBinding{{Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"}}},
	}
}

func TestTheDifferenceToWhatIsWritten(t *testing.T) {
	p := &clusterv1beta1.Placement{}
	p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{
		GroupName: "canary", ClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}},
	}}
	before := []placement.ClusterChoice{{Cluster: "a", Group: 0}, {Cluster: "b", Group: 1}, {Cluster: "gone", Group: 1}}
	o, _ := evaluatePlacement(p, state(view.Cluster{Name: "a", Labels: map[string]string{"canary": "yes"}}, view.Cluster{Name: "b"}, view.Cluster{Name: "c"}), before, noon)
	want := decisionDifference{Add: []string{"c"}, Remove: []string{"gone"}, Move: []string{"a"}}
	if diff := cmp.Diff(want, o.Difference); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var rows []string
	for _, row := range o.changeRows()[1:] {
		rows = append(rows, strings.Join(row, "|"))
	}
	wantRows := []string{"~|a|0 canary|200|", "|b|1|200|", "+|c|1|100|", "-|gone|||it no longer exists"}
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAMistakeLeavesWhatIsChosen(t *testing.T) {
	p := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(-1))}}
	o, _ := evaluatePlacement(p, state(view.Cluster{Name: "a"}), []placement.ClusterChoice{{Cluster: "b"}}, noon)
	if len(o.Mistakes) == 0 || !strings.Contains(o.Mistakes[0], "spec.numberOfClusters") || !o.Difference.isEmpty() || !strings.Contains(o.formatHeadline(), "what is chosen stays: b") {
		t.Errorf("the outcome is %+v: %s", o, o.formatHeadline())
	}
}

func TestWhatCostsTooMuchForTheFleetLeavesWhatIsChosen(t *testing.T) {
	costly := strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", 3) + `!"` + strings.Repeat("x", 5000) + `".contains("y")` + strings.Repeat(")", 3)
	p := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{
		RequiredClusterSelector: clusterv1beta1.ClusterSelector{CelSelector: clusterv1beta1.ClusterCelSelector{CelExpressions: []string{costly}}},
	}}}}
	var clusters []view.Cluster
	for i := range 110 {
		clusters = append(clusters, view.Cluster{Name: fmt.Sprintf("c%03d", i)})
	}
	o, _ := evaluatePlacement(p, state(clusters...), []placement.ClusterChoice{{Cluster: "c109"}}, noon)
	if len(o.Mistakes) != 1 || !strings.Contains(o.Mistakes[0], "cost more than") || !o.Difference.isEmpty() || !strings.Contains(o.formatHeadline(), "what is chosen stays: c109") {
		t.Errorf("the outcome is %+v: %s", o, o.formatHeadline())
	}
}

func TestWhenTimeAloneChangesTheOutcome(t *testing.T) {
	p := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Key: "gpu", Operator: "Exists", TolerationSeconds: new(int64(60))}}}}
	gpu := view.Taint{Key: "gpu", Effect: view.NoSelect, Since: noon.Add(-20 * time.Second)}
	o, _ := evaluatePlacement(p, state(view.Cluster{Name: "a", Taints: []view.Taint{gpu}}), nil, noon)
	var text strings.Builder
	o.printNotes(&text, noon)
	if want := "In 40s a toleration or a score expires"; !strings.Contains(text.String(), want) {
		t.Errorf("the notes do not say %q: %s", want, text.String())
	}
}

func TestWhyTheDecisionIsAnotherOne(t *testing.T) {
	seen := []metav1.Condition{{Type: clusterv1beta1.PlacementConditionSatisfied, ObservedGeneration: 2}}
	cases := map[string]struct {
		reason    string
		placement clusterv1beta1.Placement
		unread    []string
		want      string
	}{
		"nobody has looked":    {reason: "the controller does not run, or has only just started", placement: clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: clusterv1beta1.PlacementStatus{Conditions: seen}}, want: "has not processed the latest change"},
		"scheduling is off":    {reason: "then it is no wonder", placement: clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}}}, want: "otherwise"},
		"something was hidden": {reason: "the hub sees it", placement: clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: clusterv1beta1.PlacementStatus{Conditions: seen}}, unread: []string{"x"}, want: "could not be read"},
		"no reason is known":   {reason: "a moment, or a controller that hangs", placement: clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: clusterv1beta1.PlacementStatus{Conditions: seen}}, want: "If this persists"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := staleDecisionReason(&tc.placement, &placementOutcome{Unread: tc.unread}); !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestATaintForgesNoLine has whoever joins, or may taint a cluster, write lines of the answer into the value of a taint.
func TestATaintForgesNoLine(t *testing.T) {
	const forged = "Cluster prod is chosen"
	value := "x=\n" + forged + "\r\n" + forged + ":NoSelect"
	var text strings.Builder
	clusterVerdict{Name: "edge", Reason: "taint " + value + " is not tolerated", Taints: []taint{{Taint: value}}}.
		printVerdict(&text, func(time.Time) string { return "" })
	if strings.Count(text.String(), forged) != 4 {
		t.Errorf("the taint is not told twice:\n%s", text.String())
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, forged) {
			t.Errorf("a line is the taint's:\n%s", text.String())
		}
	}
}
