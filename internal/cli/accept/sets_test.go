// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

func TestWhatTheLabelsOfAClusterGetIt(t *testing.T) {
	set := func(name string, selector *metav1.LabelSelector, namespaces ...string) clusterv1beta2.ManagedClusterSet {
		s := clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.ClusterSelector.SelectorType = clusterv1beta2.SelectorTypeExclusiveClusterSetLabel
		if selector != nil {
			s.Spec.ClusterSelector.SelectorType, s.Spec.ClusterSelector.LabelSelector = clusterv1beta2.SelectorTypeLabelSelector, selector
		}
		for _, namespace := range namespaces {
			s.Spec.ManagedNamespaces = append(s.Spec.ManagedNamespaces, clusterv1.ManagedNamespaceConfig{Name: namespace})
		}
		return s
	}
	bound := func(set, namespace string) clusterv1beta2.ManagedClusterSetBinding {
		return clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
		}
	}
	sets := []clusterv1beta2.ManagedClusterSet{
		set("default", nil), set("global", &metav1.LabelSelector{}), set("prod", nil, "shared"),
		set("edge", &metav1.LabelSelector{MatchLabels: map[string]string{"site": "edge"}}), set("none", nil),
	}
	bindings := []clusterv1beta2.ManagedClusterSetBinding{bound("prod", "team-b"), bound("prod", "team-a"), bound("edge", "team-c")}
	cases := map[string]struct {
		reason string
		labels map[string]string
		want   []string
	}{
		"no labels": {reason: "it is in the sets that every cluster is in, which is no news"},
		"a set of its own choice": {
			reason: "whoever asks to join has chosen it", labels: map[string]string{clusterv1.LabelClusterSet: "prod"},
			want: []string{`ManagedClusterSet "prod" (by its label cluster.open-cluster-management.io/clusterset): these namespaces can place workloads on the cluster: team-a, team-b; the cluster gets the namespaces shared`},
		},
		"another label that a set looks for": {
			reason: "nobody needs a permission to set that", labels: map[string]string{"site": "edge"},
			want: []string{`ManagedClusterSet "edge" (by its labels: site=edge): these namespaces can place workloads on the cluster: team-c`},
		},
		"a set without bindings": {
			reason: "it may get some later", labels: map[string]string{clusterv1.LabelClusterSet: "none"},
			want: []string{`ManagedClusterSet "none" (by its label cluster.open-cluster-management.io/clusterset): no namespace is bound to it`},
		},
		"a set that does not exist": {
			reason: "it may be made later, and then the cluster is in it", labels: map[string]string{clusterv1.LabelClusterSet: "new"},
			want: []string{`ManagedClusterSet "new" (by its label cluster.open-cluster-management.io/clusterset), which does not exist`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found, err := clusterSetMemberships(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}, sets, bindings)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range found {
				got = append(got, e.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}
