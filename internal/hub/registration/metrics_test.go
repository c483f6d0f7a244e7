// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

func TestClustersAreCountedWhenMetricsAreRead(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	cluster := func(name string, accepted, available metav1.ConditionStatus) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted == metav1.ConditionTrue},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: accepted},
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: available},
			}},
		}
	}
	joined := func(c *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue})
		return c
	}
	lease := func(cluster, name string, age time.Duration) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-age))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
		}
	}
	born := lease("young", clusterv1.LeaseName, 0)
	born.Spec.RenewTime, born.CreationTimestamp = nil, metav1.NewTime(now.Add(-10*time.Second))
	objects := []client.Object{
		joined(cluster("well", metav1.ConditionTrue, metav1.ConditionTrue)), lease("well", clusterv1.LeaseName, 45*time.Second),
		joined(cluster("lost", metav1.ConditionTrue, metav1.ConditionUnknown)), lease("lost", clusterv1.LeaseName, 2*time.Hour),
		cluster("ahead", metav1.ConditionTrue, metav1.ConditionFalse), lease("ahead", clusterv1.LeaseName, -time.Hour),
		cluster("young", metav1.ConditionTrue, metav1.ConditionUnknown), born,
		joined(cluster("denied", metav1.ConditionFalse, metav1.ConditionUnknown)), lease("denied", clusterv1.LeaseName, time.Hour),
		lease("well", "addon-lease", time.Hour), lease("forgotten", clusterv1.LeaseName, time.Hour),
	}
	scheme, err := NewRegistrationScheme()
	if err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	leading := make(chan struct{})
	close(leading)
	registry := prometheus.NewPedanticRegistry()
	for _, collector := range newClusterCollectors(reader, clocktesting.NewFakePassiveClock(now), leading) {
		if err := registry.Register(collector); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	states, ages := map[string]float64{}, map[float64]uint64{}
	for _, family := range families {
		switch family.GetName() {
		case "capstan_managed_clusters":
			for _, metric := range family.GetMetric() {
				states[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
			}
		case "capstan_cluster_heartbeat_age_seconds":
			histogram := family.GetMetric()[0].GetHistogram()
			if histogram.GetSampleCount() != 4 {
				t.Errorf("%d heartbeats, want those of the 4 accepted clusters", histogram.GetSampleCount())
			}
			for _, bucket := range histogram.GetBucket() {
				ages[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
			}
		}
	}
	wantStates := map[string]float64{
		"all": 5, "accepted": 4, "joined": 3, "available": 1, "unavailable": 1, "unknown": 3, "unreachable": 1, "deleting": 0, "duplicate": 0,
	}
	if diff := cmp.Diff(wantStates, states); diff != "" {
		t.Errorf("clusters by state (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[float64]uint64{30: 2, 60: 3, 120: 3, 300: 3, 600: 3, 3600: 3}, ages); diff != "" {
		t.Errorf("clusters by age of their heartbeat (-want +got):\n%s", diff)
	}
}
