// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

func TestPlacementsHaveTheirOwnDecisionsInOrder(t *testing.T) {
	decision := func(name, owner, group string, clusters ...string) clusterv1beta1.PlacementDecision {
		d := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps", Name: name, Labels: map[string]string{clusterv1beta1.LabelPlacement: "web", clusterv1beta1.LabelDecisionGroupIndex: group},
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
	placements := []clusterv1beta1.Placement{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: "1"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "empty", UID: "3"}},
	}
	made := func(cluster, name, set, placement string) workv1.ManifestWork {
		w := work(cluster, name)
		w.Labels = map[string]string{workv1.LabelManifestWorkReplicaSet: set, workv1.LabelPlacementName: placement}
		return w
	}
	all := placementSources{placements: placements, decisions: []clusterv1beta1.PlacementDecision{
		decision("web-decision-10", "web", "1", "c"), decision("web-decision-2", "web", "0", "a", "gone"), decision("web-decision-3", "other", "0", "b"),
	}, sets: []workv1alpha1.ManifestWorkReplicaSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "shop"}}}}
	nodes := all.placementNodes([]clusterv1.ManagedCluster{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "c"}}},
		[]workv1.ManifestWork{made("a", "shop", "apps.shop", "web"), made("a", "other", "other.shop", "web"), made("c", "cart", "apps.cart", "empty"), work("c", "own")})
	want := []string{
		"├─ placement apps/empty", "├─ placement apps/web", "│  ├─ decision web-decision-2 (group 0)", "│  │  ├─ cluster a", "│  │  │  └─ work shop",
		"│  │  └─ cluster gone", "│  └─ decision web-decision-10 (group 1)", "│     └─ cluster c", "└─ replicaset apps/shop",
	}
	if diff := cmp.Diff(want, names(nodes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if gone := nodes[1].children[0].children[1].state; gone.Reason != noCluster {
		t.Errorf("a cluster that is not there is %+v", gone)
	}
}
