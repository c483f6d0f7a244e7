// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"strings"
	"testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

// outcomeOf is where six replicas go by a placement, "clusters of group", or why nowhere.
func outcomeOf(placement policyv1alpha1.Placement) string {
	compiled, problems := CompilePlacement(&placement)
	if len(problems) > 0 {
		return "mistake: " + problems[0].Field
	}
	decision := compiled.DecideClusters(fleetOf(
		"a region=eu zone=eu-1 provider=p pods=4 rack=r1", "b region=eu zone=eu-2 provider=q pods=9 rack=r2",
		"c region=us zone=us-1 provider=p pods=2 rack=r1", "d region=us zone=us-2 provider=q pods=7 rack=r3",
		"e taint=NoSelect region=us zone=us-3 provider=p pods=9 rack=r4",
	), PlacementInput{Placement: &placement, Workload: true, Replicas: 6, UID: first}, noon)
	if !decision.Scheduled {
		return decision.Message
	}
	return strings.TrimSpace(textOf(decision.Clusters) + " " + decision.Affinity)
}

// TestFields makes sure that each field of a placement does something, wherever it stands:
// without it, replicas go elsewhere.
func TestFields(t *testing.T) {
	const (
		names, exclude, labels, region = "{clusterNames: [b]}", "{exclude: [b]}", "{labelSelector: {matchLabels: {rack: r2}}}",
			"{fieldSelector: {matchExpressions: [{key: region, operator: NotIn, values: [us]}]}}"

		own      = "clusterAffinities[0]"
		overflow = "clusterAffinities[0].overflowAffinities[0]"
		target   = "replicaScheduling.weightPreference.staticWeightList[0].targetCluster"
		expected = ".fieldSelector.matchExpressions[0]"
		spread   = "spreadConstraints[0]"
	)
	alone := func(affinity string) string { return "{clusterAffinity: " + affinity + "}" }
	group := func(affinity string) string {
		return "{clusterAffinities: [{affinityName: own, " + affinity[1:] + ", {affinityName: all}]}"
	}
	overflowing := func(affinity string) string {
		return "{clusterAffinities: [{affinityName: own, clusterNames: [a], overflowAffinities: [" + affinity + "]}], " + dynamic[1:]
	}
	weight := func(affinity string) string {
		return "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [" +
			"{weight: 2, targetCluster: " + affinity + "}, {weight: 1, targetCluster: {clusterNames: [b, c]}}]}}}"
	}
	for name, tc := range map[string]struct{ field, placement, want string }{
		"names":    {"clusterAffinity.clusterNames", alone(names), "b:6"},
		"exclude":  {"clusterAffinity.exclude", alone(exclude), "a:6 c:6 d:6"},
		"labels":   {"clusterAffinity.labelSelector", alone(labels), "b:6"},
		"key":      {"clusterAffinity" + expected + ".key", alone(region), "a:6 b:6"},
		"operator": {"clusterAffinity" + expected + ".operator", alone(region), "a:6 b:6"},
		"values":   {"clusterAffinity" + expected + ".values", alone(region), "a:6 b:6"},

		"name of a group":     {own + ".affinityName", group(names), "b:6 own"},
		"names of a group":    {own + ".clusterNames", group(names), "b:6 own"},
		"exclude of a group":  {own + ".exclude", group(exclude), "a:6 c:6 d:6 own"},
		"labels of a group":   {own + ".labelSelector", group(labels), "b:6 own"},
		"key of a group":      {own + expected + ".key", group(region), "a:6 b:6 own"},
		"operator of a group": {own + expected + ".operator", group(region), "a:6 b:6 own"},
		"values of a group":   {own + expected + ".values", group(region), "a:6 b:6 own"},

		"names of an overflow":    {overflow + ".clusterNames", overflowing(names), "a:4 b:2 own"},
		"exclude of an overflow":  {overflow + ".exclude", overflowing(exclude), "a:4 d:2 own"},
		"labels of an overflow":   {overflow + ".labelSelector", overflowing(labels), "a:4 b:2 own"},
		"key of an overflow":      {overflow + expected + ".key", overflowing(region), "a:4 b:2 own"},
		"operator of an overflow": {overflow + expected + ".operator", overflowing(region), "a:4 b:2 own"},
		"values of an overflow":   {overflow + expected + ".values", overflowing(region), "a:4 b:2 own"},

		"names of a weight":    {target + ".clusterNames", weight(names), "b:4 c:2"},
		"exclude of a weight":  {target + ".exclude", weight(exclude), "a:2 b:1 c:2 d:1"},
		"labels of a weight":   {target + ".labelSelector", weight(labels), "b:4 c:2"},
		"key of a weight":      {target + expected + ".key", weight(region), "a:3 b:2 c:1"},
		"operator of a weight": {target + expected + ".operator", weight(region), "a:3 b:2 c:1"},
		"values of a weight":   {target + expected + ".values", weight(region), "a:3 b:2 c:1"},
		"weight":               {"replicaScheduling.weightPreference.staticWeightList[0].weight", weight(names), "b:4 c:2"},

		"tolerations":    {"clusterTolerations[0]", "{clusterTolerations: [{key: t, operator: Exists}]}", "a:6 b:6 c:6 d:6 e:6"},
		"type":           {"replicaScheduling.replicaSchedulingType", "{replicaScheduling: {replicaSchedulingType: Duplicated}}", "a:6 b:6 c:6 d:6"},
		"preference":     {"replicaScheduling.replicaDivisionPreference", aggregated, "b:6"},
		"dynamic weight": {"replicaScheduling.weightPreference.dynamicWeight", dynamic, "a:1 b:2 c:1 d:2"},

		"most groups":     {spread + ".maxGroups", "{spreadConstraints: [{spreadByField: cluster, maxGroups: 2}]}", "a:6 b:6"},
		"fewest groups":   {spread + ".minGroups", "{spreadConstraints: [{spreadByField: cluster, minGroups: 5}]}", "spreadConstraints want at least 5 by cluster, and the clusters that may be chosen are 4; lower minGroups or add clusters"},
		"spread by field": {spread + ".spreadByField", "{spreadConstraints: [{spreadByField: region, maxGroups: 1}, {spreadByField: cluster}]}", "a:6 b:6"},
		"spread by label": {spread + ".spreadByLabel", "{spreadConstraints: [{spreadByLabel: rack, maxGroups: 1}]}", "a:6 c:6"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(specs.ParseSpec[policyv1alpha1.Placement](t, tc.placement)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if outcomeOf(specs.ParseWithout[policyv1alpha1.Placement](t, tc.placement, tc.field)) == tc.want {
				t.Errorf("without placement.%s it is %q, too", tc.field, tc.want)
			}
		})
	}
}
