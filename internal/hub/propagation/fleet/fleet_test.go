// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func cluster(name, version, region string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Labels: map[string]string{"region": region}}}
}

// TestWhatWasReadIsNotTakenBack is about a replica that has just got the lead: its
// cache tells of clusters as they were before what it has read from the API server.
func TestWhatWasReadIsNotTakenBack(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster("a", "20", "read"), cluster("b", "20", "read")).Build()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	f := NewFleet(clk)
	f.SetCluster("b", cluster("b", "100", "told before")) // newer than what is read
	if err := f.LoadClusters(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	f.SetCluster("a", cluster("a", "9", "told late"))
	for name, want := range map[string]string{"a": "read", "b": "told before"} {
		if is, found := f.Snapshot().ClusterNamed(name); !found || is.Labels["region"] != want {
			t.Errorf("cluster %s has labels %v, want those that were %s", name, is.Labels, want)
		}
	}
	f.SetCluster("a", cluster("a", "30", "changed"))
	if is, _ := f.Snapshot().ClusterNamed("a"); is.Labels["region"] != "changed" {
		t.Errorf("a change of the cluster is not known: %v", is.Labels)
	}
	f.SetCluster("a", nil)
	if f.Snapshot().Len() != 1 || f.Settled("a") || !f.Settled("b") {
		t.Errorf("there are %d clusters after one has gone; settled: %t, %t", f.Snapshot().Len(), f.Settled("a"), f.Settled("b"))
	}
	f.SetCluster("a", cluster("a", "40", "back"))
	if f.Settled("a") {
		t.Error("a cluster has settled that has just come back")
	}
	if clk.SetTime(clk.Now().Add(Settling)); !f.Settled("a") {
		t.Error("a cluster has not settled in time")
	}
}
