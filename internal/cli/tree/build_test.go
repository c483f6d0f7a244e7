// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestTheTreeIsInTheSameOrderHoweverThingsCome(t *testing.T) {
	clusters := []clusterv1.ManagedCluster{{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	works := []workv1.ManifestWork{work("z", "stray"), work("b", "two"), work("y", "stray"), work("b", "one"), work("a", "one")}
	want := []string{"├─ cluster a", "│  └─ work one", "├─ cluster b", "│  ├─ work one", "│  └─ work two", "├─ namespace y", "│  └─ work stray", "└─ namespace z", "   └─ work stray"}
	if diff := cmp.Diff(want, names(buildTree(clusters, works))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnObjectThatCameIntoAnothersPlaceHasNotItsStatus(t *testing.T) {
	w := work("a", "one")
	w.Spec.Workload.Manifests = []workv1.Manifest{
		{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"x"}}`)}},
		{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)}},
		{RawExtension: runtime.RawExtension{Raw: []byte("nonsense")}},
	}
	applied := []metav1.Condition{{Type: "Applied", Status: metav1.ConditionTrue}, {Type: "Available", Status: metav1.ConditionTrue}}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: 1, Kind: "Namespace", Name: "x"}, Conditions: applied},
		{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: 0, Kind: "ConfigMap", Name: "old", Namespace: "x"}, Conditions: applied},
	}
	got := map[string]metav1.ConditionStatus{}
	for _, child := range workNode(&w).children {
		got[child.name] = child.state.Ready
	}
	want := map[string]metav1.ConditionStatus{
		"ConfigMap x/new": metav1.ConditionUnknown, "Namespace x": metav1.ConditionTrue, "an object that cannot be read": metav1.ConditionUnknown,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func work(namespace, name string) workv1.ManifestWork {
	return workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func names(nodes []treeNode) []string {
	var all []string
	for _, r := range treeRows(nodes, "", func(time.Time) string { return "" }) {
		all = append(all, r.name)
	}
	return all
}
