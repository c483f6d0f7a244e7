// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/division"
)

var deployment = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}

// serving returns what a cluster serves that has CronJobs only.
func serving(complete metav1.ConditionStatus) view.ServedKinds {
	connection := &fleetv1alpha1.ClusterConnection{}
	connection.Status.APIEnablements = []fleetv1alpha1.APIEnablement{{
		GroupVersion: "batch/v1", Resources: []fleetv1alpha1.APIResource{{Name: "cronjobs", Kind: "CronJob"}},
	}}
	connection.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements, Status: complete}}
	return view.ServedBy(connection)
}

func TestWhoMayBeChosen(t *testing.T) {
	tolerant := "{clusterTolerations: [{key: t, operator: Exists, effect: NoSchedule, tolerationSeconds: 0}]}"
	for name, test := range map[string]struct {
		placement, cluster string
		served             view.ServedKinds
		target, evicted    bool
		want, by           string
	}{
		"anybody":                          {cluster: "c", want: "chosen"},
		"it is deleted":                    {cluster: "c deleting", target: true, want: "it is being deleted", by: "deletion"},
		"it does not serve the kind":       {cluster: "c", served: serving("True"), want: "it does not serve kind Deployment of apps/v1", by: "apiEnablements"},
		"it may serve the kind":            {cluster: "c", served: serving("False"), want: "chosen"},
		"it has the object already":        {cluster: "c", served: serving("True"), target: true, want: "chosen"},
		"NoSchedule":                       {cluster: "c taint=NoSelectIfNew", want: "taint t:NoSelectIfNew is not tolerated", by: "taints"},
		"NoSchedule, tolerated":            {placement: tolerant, cluster: "c taint=NoSelectIfNew", want: "chosen"},
		"NoSchedule of any key, tolerated": {placement: "{clusterTolerations: [{effect: NoSchedule}]}", cluster: "c taint=NoSelectIfNew", want: "chosen"},
		"NoExecute, and NoSchedule of any key is tolerated": {placement: "{clusterTolerations: [{effect: NoSchedule}]}", cluster: "c taint=NoSelect", want: "taint t:NoSelect is not tolerated", by: "taints"},
		"a value of any key, and the taint has none":        {placement: "{clusterTolerations: [{operator: Equal, value: v}]}", cluster: "c taint=NoSelectIfNew", want: "taint t:NoSelectIfNew is not tolerated", by: "taints"},
		"NoSchedule, and it has the object":                 {cluster: "c taint=NoSelectIfNew", target: true, want: "chosen"},
		"NoExecute":                                         {placement: tolerant, cluster: "c taint=NoSelect", want: "taint t:NoSelect is not tolerated", by: "taints"},
		"NoExecute, and it has the object":                  {cluster: "c taint=NoSelect", target: true, want: "chosen"},
		"it only asks to join":                              {placement: "{clusterTolerations: [{operator: Exists}]}", cluster: "c taint=NoSelect asking", want: "it waits for acceptance, which no toleration replaces", by: "taints"},
		"PreferNoSchedule":                                  {cluster: "c taint=PreferNoSelect", want: "chosen"},
		"an affinity, though it has it":                     {placement: "{clusterAffinity: {exclude: [c]}}", cluster: "c", target: true, want: "it is excluded by name", by: "clusterAffinity"},
		"no place":                                          {placement: "{spreadConstraints: [{spreadByField: zone}, {spreadByField: cluster}]}", cluster: "c", want: "it has no zone", by: "spreadConstraints"},
		"no label":                                          {placement: "{spreadConstraints: [{spreadByLabel: rack}]}", cluster: "c", want: "it has no label rack", by: "spreadConstraints"},
		"it is being evicted":                               {cluster: "c", target: true, evicted: true, want: "the object is being evicted from it", by: "gracefulEvictionTasks"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := *fleetOf(test.cluster).ClusterAt(0)
			cluster.Served = test.served
			in := PlacementInput{Placement: placementOf(t, test.placement), Resource: deployment, Workload: true, Replicas: 3}
			if test.target {
				in.Previous = targetsOf("c:3")
			}
			if test.evicted {
				in.Evicting = []string{"c"}
			}
			decision := DecidePlacement(view.NewFleet(cluster), in, noon)
			v, _ := decision.VerdictForCluster("c")
			if v.Reason != test.want || v.RefusedBy != test.by || v.Chosen != (test.want == "chosen") {
				t.Errorf("the verdict is %+v, want %s (%s)", v, test.want, test.by)
			}
			if !v.Chosen && (decision.Reason != workv1alpha2.BindingReasonNoClusterFit || len(decision.Clusters) > 0) {
				t.Errorf("the decision is %+v, want none that fits", decision)
			}
		})
	}
}

func TestMistakesNameTheirField(t *testing.T) {
	for want, placement := range map[string]string{
		"spec.placement.clusterTolerations[0].operator: Unsupported value":                  "{clusterTolerations: [{key: a, operator: Gt}]}",
		"spec.placement.spreadConstraints[0].maxGroups: Invalid value":                      "{spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 2}]}",
		"spec.placement.spreadConstraints[0].minGroups: Invalid value":                      "{spreadConstraints: [{spreadByField: cluster, minGroups: -1}]}",
		"spec.placement.spreadConstraints[0].spreadByField: Unsupported value":              "{spreadConstraints: [{spreadByField: planet}]}",
		"spec.placement.spreadConstraints[0].spreadByField: Required value":                 "{spreadConstraints: [{minGroups: 1}]}",
		"spec.placement.replicaScheduling.replicaSchedulingType: Unsupported value":         "{replicaScheduling: {replicaSchedulingType: Tripled}}",
		"spec.placement.replicaScheduling.replicaDivisionPreference: Unsupported value":     "{replicaScheduling: {replicaDivisionPreference: Scattered}}",
		"spec.placement.replicaScheduling.weightPreference.dynamicWeight: Unsupported":      "{replicaScheduling: {weightPreference: {dynamicWeight: Mood}}}",
		"spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight":      "{replicaScheduling: {weightPreference: {staticWeightList: [{targetCluster: {}, weight: -1}]}}}",
		"spec.placement.clusterAffinities[0].overflowAffinities[0].labelSelector: Invalid ": "{clusterAffinities: [{affinityName: a, overflowAffinities: [{affinityName: b, labelSelector: {matchExpressions: [{key: k, operator: Near}]}}]}]}",
		"spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key: Unsupported": "{clusterAffinity: {fieldSelector: {matchExpressions: [{key: planet, operator: In, values: [earth]}]}}}",
	} {
		p := placementOf(t, placement)
		if _, problems := CompilePlacement(p); len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("got %v, want %s", problems, want)
		}
		decision := DecidePlacement(fleetOf("a"), PlacementInput{Placement: p, Previous: targetsOf("a:1")}, noon)
		if decision.Scheduled || decision.Reason != workv1alpha2.BindingReasonSchedulerError || textOf(decision.Clusters) != "a:1" {
			t.Errorf("%s: the decision is %+v, want an error and that nothing moves", want, decision)
		}
		for range decision.ClusterVerdicts() {
			t.Errorf("%s: there are verdicts", want)
		}
	}
}

// TestManyTermsPlaceNothing is about a placement that every cluster is compared with.
func TestManyTermsPlaceNothing(t *testing.T) {
	regions := policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: corev1.NodeSelectorOpNotIn, Values: make([]string, 501)}},
	}}
	static := policyv1alpha1.StaticClusterWeight{TargetCluster: regions, Weight: 1}
	p := &policyv1alpha1.Placement{ClusterAffinity: &regions, ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		WeightPreference: &policyv1alpha1.ClusterPreferences{StaticWeightList: []policyv1alpha1.StaticClusterWeight{static}},
	}}
	if _, problems := CompilePlacement(p); len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "spec.placement: Too many: 1002") {
		t.Errorf("got %v", problems)
	}
}

// TestManyNamesPlaceNothing is about names of clusters, which are read and sorted, and about rules
// by name, with each of which every cluster is compared.
func TestManyNamesPlaceNothing(t *testing.T) {
	names := make([]string, 10_000)
	one := policyv1alpha1.StaticClusterWeight{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"a"}}, Weight: 1}
	weighing := func(rules int) policyv1alpha1.Placement {
		weights := &policyv1alpha1.ClusterPreferences{StaticWeightList: slices.Repeat([]policyv1alpha1.StaticClusterWeight{one}, rules)}
		return policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{WeightPreference: weights}}
	}
	for want, p := range map[string]policyv1alpha1.Placement{
		"":                               {ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}},
		"spec.placement: Too many: 1001": {ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names, ExcludeClusters: []string{"a"}}},
		"spec.placement: Too many: 1001: must have at most 1000 items": weighing(1001),
	} {
		_, problems := CompilePlacement(&p)
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want)) {
			t.Errorf("got %v, want %q", problems, want)
		}
	}
}

// TestManyGroupsPlaceNothing is about affinities that select every cluster, and so have no
// labels or values that could be counted. Each group is tried until one has room for all
// replicas, while those of nobody else are placed.
func TestManyGroupsPlaceNothing(t *testing.T) {
	groups := make([]policyv1alpha1.ClusterAffinityTerm, 65)
	tiers := []policyv1alpha1.ClusterAffinityTerm{{OverflowAffinities: make([]policyv1alpha1.OverflowClusterAffinity, 1000)}}
	byName := []policyv1alpha1.OverflowClusterAffinity{{ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"a"}}}}
	spread := make([]policyv1alpha1.ClusterAffinityTerm, 33)
	for i := range spread {
		spread[i].OverflowAffinities = byName
	}
	weights := &policyv1alpha1.ClusterPreferences{StaticWeightList: make([]policyv1alpha1.StaticClusterWeight, 1001)}
	for want, p := range map[string]policyv1alpha1.Placement{
		"spec.placement.clusterAffinities: Too many: 65":   {ClusterAffinities: groups},
		"spec.placement.clusterAffinities: Too many: 1001": {ClusterAffinities: tiers},
		"spec.placement.clusterAffinities: Too many: 66":   {ClusterAffinities: spread},
		"spec.placement: Too many: 1001: ":                 {ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{WeightPreference: weights}},
	} {
		if _, problems := CompilePlacement(&p); len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("got %v, want %s", problems, want)
		}
	}
	if _, problems := CompilePlacement(&policyv1alpha1.Placement{ClusterAffinities: spread[:32]}); len(problems) > 0 {
		t.Errorf("64 groups, half of them for overflow, are refused: %v", problems)
	}
}

func TestVerdictsOnTheOthers(t *testing.T) {
	for name, test := range map[string]struct {
		vector vector
		want   string
	}{
		"the constraints":    {vector{placement: "{spreadConstraints: [{spreadByField: cluster, maxGroups: 2}]}", replicas: 1}, "spreadConstraints: others rank higher, and the spread constraints allow no more clusters"},
		"no rule":            {vector{placement: weighted("a, b", 1), replicas: 3}, "replicaScheduling: no rule of staticWeightList is for it"},
		"a small weight":     {vector{placement: weighted("a, b", 9, "c", 1), replicas: 2}, "replicaScheduling: its weight is too small for one of 2 replicas"},
		"no room":            {vector{placement: dynamic, clusters: []string{"a pods=9", "c pods=0"}, replicas: 3}, "replicaScheduling: it has no room for a replica"},
		"little room":        {vector{placement: dynamic, clusters: []string{"a pods=90", "c pods=1"}, replicas: 3}, "replicaScheduling: its share of 3 replicas is less than one"},
		"others have enough": {vector{placement: aggregated, clusters: []string{"a pods=90", "c pods=80"}, replicas: 3}, "replicaScheduling: fewer clusters have room for all 3 replicas"},
		"nothing moves":      {vector{placement: dynamic, clusters: []string{"a pods=0", "c pods=80"}, replicas: 3, previous: "a:3"}, "replicaScheduling: all replicas are elsewhere, and stay there until the object or its policy changes"},
		"for others only":    {vector{placement: "{clusterAffinities: [{affinityName: x, clusterNames: [a], overflowAffinities: [{affinityName: y}]}]}", replicas: 3}, "overflowAffinities: it is for replicas that others have no room for"},
		"nobody has room":    {vector{placement: dynamic, clusters: []string{"a pods=0", "c pods=1"}, replicas: 3}, ": Clusters available replicas 1 are not enough to schedule."},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := test.vector.decide(t).VerdictForCluster("c")
			if got := v.RefusedBy + ": " + v.Reason; got != test.want || v.Chosen {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	decision := vector{placement: dynamic, clusters: []string{"a pods=5", "b"}, replicas: 3, previous: "a:1"}.decide(t)
	v, _ := decision.VerdictForCluster("a")
	if want := (ClusterVerdict{Cluster: "a", Chosen: true, Replicas: 2, Reason: "chosen", Score: 100, Room: 5}); v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
	if _, found := decision.VerdictForCluster("z"); found {
		t.Error("there is a verdict on a cluster that is not there")
	}
	if checks := decision.FilterChecks("a"); len(checks) != 6 {
		t.Errorf("there are %d checks of a: %v", len(checks), checks)
	}
}

func TestNeeds(t *testing.T) {
	fleet := fleetOf("a", "b", "c deleting")
	minute := func(n int) *metav1.Time { return &metav1.Time{Time: noon.Add(time.Duration(n) * time.Minute)} }
	groups := "{clusterAffinities: [{affinityName: x, clusterNames: [a]}, {affinityName: y, clusterNames: [b]}]}"
	other := "{clusterAffinities: [{affinityName: x, clusterNames: [a]}, {affinityName: y, clusterNames: [c]}]}"
	for name, test := range map[string]struct {
		placement, applied string
		state              SchedulingState
		want               string
	}{
		"at first":                {placement: static, want: "no decision was made yet"},
		"all is well":             {placement: static, applied: static},
		"another type":            {placement: static, applied: dynamic, want: "placement.replicaScheduling has changed"},
		"another affinity":        {placement: with(static, "clusterAffinity: {exclude: [z]}"), applied: static, want: "placement.clusterAffinity has changed"},
		"another toleration":      {placement: with(static, "clusterTolerations: [{operator: Exists}]"), applied: static, want: "placement.clusterTolerations has changed"},
		"another constraint":      {placement: with(static, "spreadConstraints: [{spreadByField: cluster}]"), applied: static, want: "placement.spreadConstraints has changed"},
		"workloads with others":   {placement: with(static, "workloadAffinity: {affinity: {groupByLabelKey: k}}"), applied: static},
		"the observed group":      {placement: with(static, other[1:len(other)-1]), applied: with(static, groups[1:len(groups)-1]), state: SchedulingState{PlacementInput: PlacementInput{ObservedAffinity: "y"}}, want: "placement.clusterAffinities has changed"},
		"another group":           {placement: with(static, other[1:len(other)-1]), applied: with(static, groups[1:len(groups)-1]), state: SchedulingState{PlacementInput: PlacementInput{ObservedAffinity: "x"}}},
		"a group that is no more": {placement: with(static, other[1:len(other)-1]), applied: with(static, groups[1:len(groups)-1]), state: SchedulingState{PlacementInput: PlacementInput{ObservedAffinity: "z"}}, want: "placement.clusterAffinities has changed"},
		"more replicas":           {placement: static, applied: static, state: SchedulingState{PlacementInput: PlacementInput{Replicas: 5}}, want: "replicas: 5 are wanted and 3 are placed"},
		"the user asks":           {placement: static, applied: static, state: SchedulingState{RescheduleTriggeredAt: minute(2), LastScheduled: minute(1)}, want: "rescheduleTriggeredAt: the user requested a new decision"},
		"the user asked":          {placement: static, applied: static, state: SchedulingState{RescheduleTriggeredAt: minute(1), LastScheduled: minute(1)}},
		"a target is deleted":     {placement: static, applied: static, state: SchedulingState{PlacementInput: PlacementInput{Previous: targetsOf("a:1 c:2")}}, want: "cluster c is being deleted, or gone"},
		"a target is gone":        {placement: static, applied: static, state: SchedulingState{PlacementInput: PlacementInput{Previous: targetsOf("a:1 z:2")}}, want: "cluster z is being deleted, or gone"},
		"duplicated":              {placement: "{}", applied: "{}", want: "each cluster that may be chosen gets all replicas"},
		"what cannot be read":     {placement: static, applied: "-", want: "the placement that was applied cannot be read: json: cannot unmarshal array into Go value of type v1alpha1.Placement"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.state
			s.Placement, s.Workload = placementOf(t, test.placement), true
			if s.Replicas == 0 {
				s.Replicas = 3
			}
			if s.Previous == nil {
				s.Previous = targetsOf("a:1 b:2")
			}
			if test.applied == "-" {
				s.AppliedPlacement = "[]"
			} else if test.applied != "" {
				text, err := json.Marshal(placementOf(t, test.applied))
				if err != nil {
					t.Fatal(err)
				}
				s.AppliedPlacement = string(text)
			}
			if need, why := NeedsScheduling(fleet, s); why != test.want || need != (test.want != "") {
				t.Errorf("needs: %t, %q, want %q", need, why, test.want)
			}
		})
	}
	if need, why := NeedsScheduling(fleet, SchedulingState{PlacementInput: PlacementInput{Placement: placementOf(t, static)}, AppliedPlacement: strings.ReplaceAll("{'replicaScheduling': {'replicaSchedulingType': 'Divided', 'replicaDivisionPreference': 'Weighted'}}", "'", `"`)}); !need || why != "each cluster that may be chosen gets a copy" {
		t.Errorf("without replicas: %t, %s", need, why)
	}
}

func TestTheHashOfTheUIDs(t *testing.T) {
	if division.TieBreakOf(string(first)) != division.FirstByName || division.TieBreakOf(string(last)) != division.LastByName {
		t.Error("the UIDs of the vectors do not break ties as they say")
	}
}
