// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestSlimCluster(t *testing.T) {
	long := strings.Repeat("x", textMax+1)
	got, err := SlimCluster(&clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Finalizers: []string{"example.com/a"}, OwnerReferences: []metav1.OwnerReference{{Name: "a"}}, GenerateName: "c-",
			Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes", "agent.open-cluster-management.io/long": long,
				fleetv1alpha1.AnnotationPinnedClaims: long,
			},
		},
		Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{Type: "A", Message: long}}},
		Spec:   clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: []clusterv1.ClientConfig{{URL: "https://c", CABundle: []byte("ca")}}},
	})
	expect.NoError(t, err)
	want := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"mine": "yes", fleetv1alpha1.AnnotationPinnedClaims: long},
		},
		Spec:   clusterv1.ManagedClusterSpec{ManagedClusterClientConfigs: []clusterv1.ClientConfig{{URL: "https://c"}}},
		Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{Type: "A", Message: long[:textMax]}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
}

// TestMembersDoNotFillTheCache has objects into which an agent has written as much as
// fits.
func TestMembersDoNotFillTheCache(t *testing.T) {
	known := metav1.ObjectMeta{Namespace: "c", Name: "o", UID: "uid", ResourceVersion: "1"}
	written := known
	written.GenerateName = "o-"
	for i := range 1000 {
		key := fmt.Sprint("k", i)
		metav1.SetMetaDataLabel(&written, key, key)
		metav1.SetMetaDataAnnotation(&written, key, key)
		written.Finalizers = append(written.Finalizers, "example.com/"+key)
		written.OwnerReferences = append(written.OwnerReferences, metav1.OwnerReference{Name: key})
		written.ManagedFields = append(written.ManagedFields, metav1.ManagedFieldsEntry{Manager: key})
	}
	long, renewed, until := strings.Repeat("x", 100_000), metav1.NowMicro(), metav1.Now()
	heartbeat := &coordinationv1.Lease{ObjectMeta: *written.DeepCopy()}
	heartbeat.Labels[clusterv1.LabelClusterName] = "c"
	heartbeat.Spec = coordinationv1.LeaseSpec{HolderIdentity: &long, LeaseDurationSeconds: new(int32(60)), RenewTime: &renewed}
	slimmed := &coordinationv1.Lease{ObjectMeta: known, Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(60)), RenewTime: &renewed}}
	slimmed.Labels = map[string]string{clusterv1.LabelClusterName: "c"}
	scores, few := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: written}, &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: known}
	scores.Status.ValidUntil, few.Status.ValidUntil = &until, &until
	scores.Status.Conditions = []metav1.Condition{{Type: "A", Message: long}}
	scores.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: long}}
	for i := range scoresMax {
		item := clusterv1alpha1.AddOnPlacementScoreItem{Name: fmt.Sprint("s", i), Value: 1}
		scores.Status.Scores = append(scores.Status.Scores, item)
		if i < scoresMax-1 { // after the one with the long name
			few.Status.Scores = append(few.Status.Scores, item)
		}
	}
	for _, c := range []struct {
		slim      func(any) (any, error)
		has, want any
	}{
		{SlimLease, heartbeat, slimmed}, {SlimScores, scores, few},
	} {
		got, err := c.slim(c.has)
		expect.NoError(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("what is kept (-want +got):\n%.2000s", diff)
		}
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
	expect.NoError(t, err)
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
