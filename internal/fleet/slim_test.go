// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestSlimCluster(t *testing.T) {
	got, err := SlimCluster(&clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes"},
		},
		Spec: clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: []clusterv1.ClientConfig{{URL: "https://c", CABundle: []byte("ca")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{"mine": "yes"}},
		Spec:       clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: []clusterv1.ClientConfig{{URL: "https://c"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
}

func TestSlimMirrorLeavesWhatIsMirrored(t *testing.T) {
	full := func() *fleetv1alpha1.ClusterConnection {
		return &fleetv1alpha1.ClusterConnection{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
			Cluster: &fleetv1alpha1.ClusterProjection{
				UID: "uid", Annotations: map[string]string{"a": "b"}, ManagedFields: "[]", SecretRef: &fleetv1alpha1.NamespacedSecretReference{Name: "s"},
				Intent: &fleetv1alpha1.ClusterIntent{Accept: true},
			},
			Status: fleetv1alpha1.ClusterConnectionStatus{ID: "id", NodeSummary: &fleetv1alpha1.NodeSummary{TotalNum: 1}},
		}
	}
	want := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": "b"}},
		Cluster:    &fleetv1alpha1.ClusterProjection{UID: "uid", Intent: &fleetv1alpha1.ClusterIntent{Accept: true}},
		Status:     fleetv1alpha1.ClusterConnectionStatus{ID: "id"},
	}
	got, err := SlimMirror(full())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is kept for the mirror (-want +got):\n%s", diff)
	}
	want.Cluster = nil
	if got, err = SlimConnection(full()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what others keep (-want +got):\n%s", diff)
	}
}
