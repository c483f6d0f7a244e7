// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

type entry = clusterv1.ClusterSetManagedNamespaceConfig

// set returns a set that requests namespaces; it is one by label, or all clusters with the
// label env=prod.
func set(name string, bySelector bool, namespaces ...string) clusterv1beta2.ManagedClusterSet {
	s := clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.ClusterSelector.SelectorType = clusterv1beta2.SelectorTypeExclusiveClusterSetLabel
	if bySelector {
		s.Spec.ClusterSelector.SelectorType = clusterv1beta2.SelectorTypeLabelSelector
		s.Spec.ClusterSelector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}
	for _, namespace := range namespaces {
		s.Spec.ManagedNamespaces = append(s.Spec.ManagedNamespaces, clusterv1.ManagedNamespaceConfig{Name: namespace})
	}
	return s
}

func wants(set string, namespace string, conditions ...metav1.Condition) entry {
	return entry{ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: namespace}, ClusterSet: set, Conditions: conditions}
}

func TestTheNamespacesThatSetsWant(t *testing.T) {
	t.Parallel()
	made := metav1.Condition{Type: clusterv1.ManagedNamespaceConditionAvailable, Status: metav1.ConditionTrue}
	going := set("one", false, "a")
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	unclear := set("two", true, "a")
	unclear.Spec.ClusterSelector.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Like"}}
	for name, c := range map[string]struct {
		denied bool
		had    []entry
		sets   []clusterv1beta2.ManagedClusterSet
		want   []entry
	}{
		"no set":                   {},
		"a set without namespaces": {sets: []clusterv1beta2.ManagedClusterSet{set("one", false)}},
		"the sets that it is in, sorted": {
			sets: []clusterv1beta2.ManagedClusterSet{set("prod", true, "z", "b"), set("other", false, "c"), set("one", false, "a")},
			want: []entry{wants("one", "a"), wants("prod", "b"), wants("prod", "z")},
		},
		"the same for two sets": {
			sets: []clusterv1beta2.ManagedClusterSet{set("prod", true, "a"), set("one", false, "a")}, want: []entry{wants("one", "a"), wants("prod", "a")},
		},
		"what the agent says stays": {
			had:  []entry{wants("one", "a", made), wants("one", "gone", made), wants("prod", "a")},
			sets: []clusterv1beta2.ManagedClusterSet{set("one", false, "a", "b")}, want: []entry{wants("one", "a", made), wants("one", "b")},
		},
		"a cluster that is not accepted": {denied: true, had: []entry{wants("one", "a", made)}, sets: []clusterv1beta2.ManagedClusterSet{set("one", false, "a")}},
		"a set that goes":                {had: []entry{wants("one", "a", made)}, sets: []clusterv1beta2.ManagedClusterSet{going}},
		"a set that selects nothing":     {sets: []clusterv1beta2.ManagedClusterSet{unclear}},
	} {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.LabelClusterSet: "one", "env": "prod"}}}
		mc.Spec.HubAcceptsClient, mc.Status.ManagedNamespaces = !c.denied, c.had
		if diff := cmp.Diff(c.want, wantedNamespaces(mc, c.sets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
