// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sixClusters are three in zone a, two in b and one in c: the first of each
// platform is on AWS. a3 has a taint, a2 has been preferred by an add-on, and c1
// is the largest. c1 is not in set east.
func sixClusters() view.Fleet {
	cluster := func(name, platform, cpu string, heat int32, taints ...view.Taint) view.Cluster {
		set := "east"
		if name[:1] == "c" {
			set = "west"
		}
		return view.Cluster{
			Name: name, Labels: map[string]string{"zone": name[:1], "set": set}, Claims: map[string]string{"platform": platform}, Taints: taints,
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Scores: map[view.ScoreName]view.Score{
				{Resource: "demo", Score: "heat"}: {Value: heat}, {Resource: "demo", Score: "cold"}: {Value: -heat},
				{Resource: "another", Score: "heat"}: {Value: -heat},
			},
		}
	}
	gpu := view.Taint{Key: "gpu", Value: "only", Effect: view.NoSelect, Since: noon.Add(-time.Minute)}
	return view.NewFleet(
		cluster("a1", "AWS", "2", 10), cluster("a2", "metal", "3", 90), cluster("a3", "metal", "4", 20, gpu),
		cluster("b1", "AWS", "2", 30), cluster("b2", "metal", "1", 40),
		cluster("c1", "AWS", "9", 50),
	)
}

// outcome is what a Placement leads to.
type outcome struct {
	Chosen  []string
	Groups  []string // "name: clusters", those without a name with their number
	Again   bool     // it has to be looked at again later
	Mistake string   // the field with a mistake
}

// outcomeOf is what a Placement leads to that has chosen some clusters before.
func outcomeOf(spec clusterv1beta1.PlacementSpec, before ...string) outcome {
	p := &clusterv1beta1.Placement{Spec: spec}
	var bound []scheduler.ClusterSet
	for _, name := range []string{"east", "west"} {
		bound = append(bound, scheduler.ClusterSet{Name: name, Clusters: labels.SelectorFromSet(labels.Set{"set": name})})
	}
	request, problems := CompilePlacement(p, bound)
	if len(problems) > 0 {
		return outcome{Mistake: problems[0].Field}
	}
	result := scheduler.ScheduleClusters(sixClusters(), request.ClusterRequest, before, noon)
	o := outcome{Chosen: result.Targets, Again: !result.After.IsZero()}
	for n, group := range request.Grouping.DivideTargets(sixClusters(), result.Targets) {
		name := group.Name
		if name == "" {
			name = strconv.Itoa(n)
		}
		o.Groups = append(o.Groups, name+": "+strings.Join(group.Clusters, " "))
	}
	return o
}

// Each field does something: without it the outcome is another.
func TestFields(t *testing.T) {
	cases := map[string]struct {
		field  string
		spec   string
		chosen string
		groups string
		again  bool
		before []string // that were chosen
	}{
		"sets":            {field: "clusterSets", spec: `{clusterSets: [west]}`, chosen: "c1"},
		"number":          {field: "numberOfClusters", spec: `{numberOfClusters: 2}`, chosen: "a1 a2"},
		"labels":          {field: "predicates[0].requiredClusterSelector.labelSelector", spec: `{predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {zone: b}}}}]}`, chosen: "b1 b2"},
		"claims":          {field: "predicates[0].requiredClusterSelector.claimSelector", spec: `{predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: platform, operator: In, values: [AWS]}]}}}]}`, chosen: "a1 b1 c1"},
		"expressions":     {field: "predicates[0].requiredClusterSelector.celSelector.celExpressions", spec: `{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ['managedCluster.scores("demo").exists(s, s.value > 50)']}}}]}`, chosen: "a2"},
		"mode":            {field: "prioritizerPolicy.mode", spec: `{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: [{weight: 1, scoreCoordinate: {type: AddOn, addOn: {resourceName: demo, scoreName: heat}}}]}}`, chosen: "a2", before: []string{"c1"}},
		"weight":          {field: "prioritizerPolicy.configurations[0].weight", spec: `{numberOfClusters: 1, prioritizerPolicy: {configurations: [{weight: 5, scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}}`, chosen: "c1"},
		"built in":        {field: "prioritizerPolicy.configurations[0].scoreCoordinate.builtIn", spec: `{numberOfClusters: 1, prioritizerPolicy: {configurations: [{weight: 1, scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}}`, chosen: "c1"},
		"type":            {field: "prioritizerPolicy.configurations[0].scoreCoordinate.type", spec: `{numberOfClusters: 1, prioritizerPolicy: {configurations: [{weight: 1, scoreCoordinate: {type: AddOn, builtIn: ResourceAllocatableCPU, addOn: {resourceName: demo, scoreName: heat}}}]}}`, chosen: "a2"},
		"score":           {field: "prioritizerPolicy.configurations[0].scoreCoordinate.addOn.scoreName", spec: `{numberOfClusters: 1, prioritizerPolicy: {configurations: [{weight: 1, scoreCoordinate: {type: AddOn, addOn: {resourceName: demo, scoreName: heat}}}]}}`, chosen: "a2"},
		"scores":          {field: "prioritizerPolicy.configurations[0].scoreCoordinate.addOn.resourceName", spec: `{numberOfClusters: 1, prioritizerPolicy: {configurations: [{weight: 1, scoreCoordinate: {type: AddOn, addOn: {resourceName: demo, scoreName: heat}}}]}}`, chosen: "a2"},
		"topology":        {field: "spreadPolicy.spreadConstraints[0]", spec: `{numberOfClusters: 3, spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 1}]}}`, chosen: "a1 b1 c1"},
		"key":             {field: "spreadPolicy.spreadConstraints[0].topologyKey", spec: `{numberOfClusters: 3, spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 1}]}}`, chosen: "a1 b1 c1"},
		"kind of key":     {field: "spreadPolicy.spreadConstraints[0].topologyKeyType", spec: `{numberOfClusters: 4, spreadPolicy: {spreadConstraints: [{topologyKey: platform, topologyKeyType: Claim, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}}`, chosen: "a1 a2 b1 b2"},
		"skew":            {field: "spreadPolicy.spreadConstraints[0].maxSkew", spec: `{numberOfClusters: 4, spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]}}`, chosen: "a1 a2 b1 b2"},
		"or not":          {field: "spreadPolicy.spreadConstraints[0].whenUnsatisfiable", spec: `{numberOfClusters: 6, spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}, tolerations: [{key: gpu, operator: Exists}]}`, chosen: "a1 a2 b1 b2 c1"},
		"taint":           {field: "tolerations[0]", spec: `{tolerations: [{key: gpu, value: only, effect: NoSelect}]}`, chosen: "a1 a2 a3 b1 b2 c1"},
		"key of taint":    {field: "tolerations[0].key", spec: `{tolerations: [{key: gpu, value: only}]}`, chosen: "a1 a2 a3 b1 b2 c1"},
		"value":           {field: "tolerations[0].value", spec: `{tolerations: [{key: gpu, value: only}]}`, chosen: "a1 a2 a3 b1 b2 c1"},
		"operator":        {field: "tolerations[0].operator", spec: `{tolerations: [{key: gpu, operator: Exists}]}`, chosen: "a1 a2 a3 b1 b2 c1"},
		"effect":          {field: "tolerations[0].effect", spec: `{tolerations: [{key: gpu, operator: Exists, effect: NoSelectIfNew}]}`, chosen: "a1 a2 b1 b2 c1"},
		"for so long":     {field: "tolerations[0].tolerationSeconds", spec: `{tolerations: [{key: gpu, operator: Exists, tolerationSeconds: 90}]}`, chosen: "a1 a2 a3 b1 b2 c1", again: true},
		"size of group":   {field: "decisionStrategy.groupStrategy.clustersPerDecisionGroup", spec: `{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 2}}}`, chosen: "a1 a2 b1 b2 c1", groups: "0: a1 a2, 1: b1 b2, 2: c1"},
		"name of group":   {field: "decisionStrategy.groupStrategy.decisionGroups[0].groupName", spec: `{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 100%, decisionGroups: [{groupName: first, groupClusterSelector: {labelSelector: {matchLabels: {zone: c}}}}]}}}`, chosen: "a1 a2 b1 b2 c1", groups: "first: c1, 1: a1 a2 b1 b2"},
		"group by labels": {field: "decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector.labelSelector", spec: `{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 100%, decisionGroups: [{groupName: first, groupClusterSelector: {labelSelector: {matchLabels: {zone: c}}}}]}}}`, chosen: "a1 a2 b1 b2 c1", groups: "first: c1, 1: a1 a2 b1 b2"},
		"group by claims": {field: "decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector.claimSelector", spec: `{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 100%, decisionGroups: [{groupName: first, groupClusterSelector: {claimSelector: {matchExpressions: [{key: platform, operator: In, values: [AWS]}]}}}]}}}`, chosen: "a1 a2 b1 b2 c1", groups: "first: a1 b1 c1, 1: a2 b2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			with := outcomeOf(specs.ParseSpec[clusterv1beta1.PlacementSpec](t, tc.spec), tc.before...)
			got := strings.Join(with.Chosen, " ") + "; " + strings.Join(with.Groups, ", ")
			want := tc.chosen + "; " + tc.groups
			if tc.groups == "" {
				want = tc.chosen + "; 0: " + tc.chosen
			}
			if diff := cmp.Diff(want, got); diff != "" || with.Again != tc.again || with.Mistake != "" {
				t.Errorf("again: %t, mistake: %q, -want +got:\n%s", with.Again, with.Mistake, diff)
			}
			if cmp.Equal(with, outcomeOf(specs.ParseWithout[clusterv1beta1.PlacementSpec](t, tc.spec, tc.field), tc.before...)) {
				t.Errorf("without spec.%s the outcome is the same: %+v", tc.field, with)
			}
		})
	}
}
