// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

func TestDecided(t *testing.T) {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: "1"}}
	decision := func(name, owner, group, groupName string, clusters ...string) clusterv1beta1.PlacementDecision {
		d := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps", Name: name,
			Labels:          map[string]string{clusterv1beta1.LabelDecisionGroupIndex: group, clusterv1beta1.LabelDecisionGroupName: groupName},
			OwnerReferences: []metav1.OwnerReference{{UID: "1", Name: owner, Controller: new(true)}},
		}}
		if owner != "web" {
			d.OwnerReferences[0].UID = "2"
		}
		for _, c := range clusters {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
		}
		return d
	}
	got := ChoicesFromDecisions(p, []clusterv1beta1.PlacementDecision{
		decision(DecisionName("web", 2), "web", "1", "", "c", "b"),
		decision(DecisionName("web", 1), "web", "0", "canary", "a", "c"),
		decision("web-decision-3", "other", "0", "", "of-another-owner"),
		decision("web-decision-first", "web", "0", "", "of-another-name"),
		decision("webs-decision-1", "web", "0", "", "of-another-placement"),
	})
	want := []ClusterChoice{{"a", 0, "canary"}, {"b", 1, ""}, {"c", 0, "canary"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
