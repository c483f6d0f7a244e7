// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

func TestWhetherAPlacementIsSatisfied(t *testing.T) {
	east := []scheduler.ClusterSet{{Name: "east", Clusters: labels.SelectorFromSet(labels.Set{"set": "east"})}}
	empty := []scheduler.ClusterSet{{Name: "south", Clusters: labels.SelectorFromSet(labels.Set{"set": "south"})}}
	nowhere := []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "z"}},
	}}}
	cases := map[string]struct {
		spec   clusterv1beta1.PlacementSpec
		bound  []scheduler.ClusterSet
		reason string
		text   string
	}{
		"no set is bound":   {reason: clusterv1beta1.PlacementReasonNoManagedClusterSetBindings, text: "create a ManagedClusterSetBinding"},
		"another is":        {bound: east, spec: clusterv1beta1.PlacementSpec{ClusterSets: []string{"west"}}, reason: clusterv1beta1.PlacementReasonNoIntersection, text: "spec.clusterSets"},
		"its set is empty":  {bound: empty, reason: clusterv1beta1.PlacementReasonAllManagedClusterSetsEmpty, text: "have no clusters"},
		"nobody matches":    {bound: east, spec: clusterv1beta1.PlacementSpec{Predicates: nowhere}, reason: clusterv1beta1.PlacementReasonNoManagedClusterMatched, text: `no cluster may be chosen; 5: its labels do not match "zone=z"`},
		"too few match":     {bound: east, spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(7))}, reason: clusterv1beta1.PlacementReasonNotAllDecisionsScheduled, text: "4 clusters chosen, 3 more wanted; 1: taint gpu=only:NoSelect is not tolerated"},
		"enough match":      {bound: east, spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(2))}, reason: clusterv1beta1.PlacementReasonAllDecisionsScheduled, text: "2 of 5 clusters chosen; 2: others rank higher"},
		"all are chosen":    {bound: east, reason: clusterv1beta1.PlacementReasonAllDecisionsScheduled, text: "4 of 5 clusters chosen; 1: taint gpu=only:NoSelect is not tolerated"},
		"none was asked of": {bound: east, spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(0))}, reason: clusterv1beta1.PlacementReasonAllDecisionsScheduled, text: "0 of 5 clusters chosen"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request, problems := CompilePlacement(&clusterv1beta1.Placement{Spec: tc.spec}, tc.bound)
			if len(problems) > 0 {
				t.Fatal(problems.ToAggregate())
			}
			got := SatisfiedCondition(scheduler.ScheduleClusters(sixClusters(), request.ClusterRequest, nil, noon), request.NoSets)
			wanted := metav1.ConditionFalse
			if tc.reason == clusterv1beta1.PlacementReasonAllDecisionsScheduled {
				wanted = metav1.ConditionTrue
			}
			if got.Type != clusterv1beta1.PlacementConditionSatisfied || got.Status != wanted || got.Reason != tc.reason || !strings.Contains(got.Message, tc.text) {
				t.Errorf("got %+v, want %s %s: …%s…", got, wanted, tc.reason, tc.text)
			}
		})
	}
}

func TestWhatIsWrongWithTheSizeOfGroups(t *testing.T) {
	for size, want := range map[string]string{
		"1": "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup: Invalid value: \"1\": a Placement has at most 1024 groups, " +
			"so those of these 5000 clusters have up to 5; ask for as many",
		"5": "", "1%": "",
	} {
		problem := TooManyGroups(scheduler.Grouping{Size: intstr.Parse(size)}, 5000)
		if got := fmt.Sprint(problem); want == "" && problem != nil || want != "" && got != want {
			t.Errorf("groups of %s: got %s, want %q", size, got, want)
		}
	}
}

func TestWhetherAPlacementIsMisconfigured(t *testing.T) {
	right := MisconfiguredCondition(nil)
	if right.Status != metav1.ConditionFalse || right.Reason != clusterv1beta1.PlacementReasonSucceedConfigured {
		t.Errorf("without mistakes it is %+v", right)
	}
	wrong := MisconfiguredCondition(field.ErrorList{field.Invalid(field.NewPath("spec", "numberOfClusters"), -1, "must not be negative")})
	if wrong.Status != metav1.ConditionTrue || wrong.Reason != clusterv1beta1.PlacementReasonMisconfigured || !strings.Contains(wrong.Message, "spec.numberOfClusters") {
		t.Errorf("with a mistake it is %+v", wrong)
	}
}
