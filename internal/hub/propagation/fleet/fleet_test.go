// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// TestAFleetIsInMemoryOnce reads clusters that their agents have filled, some of which events
// have told before.
func TestAFleetIsInMemoryOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	filled := func(object client.Object) client.Object {
		object.SetAnnotations(map[string]string{"example.com/long": strings.Repeat("x", 2000)})
		return object
	}
	connection := func(name string) *fleetv1alpha1.ClusterConnection {
		return &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "20"}}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		filled(cluster("a", "20", "read")), filled(cluster("b", "20", "read")), filled(connection("a")), filled(connection("b")),
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			of := &client.ListOptions{}
			if of.ApplyOptions(options); of.Limit == 0 {
				t.Errorf("all of %T are read at once", list)
			}
			if err := c.List(ctx, list, options...); err != nil {
				return err
			}
			if err := meta.EachListItem(list, func(item runtime.Object) error {
				is, err := meta.Accessor(item)
				if err == nil {
					is.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "agent"}})
				}
				return err
			}); err != nil {
				return err
			}
			if of.Continue == "" { // the rest is the same once more
				list.SetContinue("rest")
			}
			return nil
		},
	}).Build()
	f := NewFleet(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	told, toldOf := cluster("b", "20", "read"), connection("b")
	f.SetCluster("b", told)
	f.SetConnection("b", toldOf)
	if err := f.LoadClusters(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	if f.clusters["b"] != told || f.connections["b"] != toldOf {
		t.Error("what is in the cache is in memory a second time")
	}
	if f.Snapshot().Len() != 2 {
		t.Errorf("there are %d clusters, want 2", f.Snapshot().Len())
	}
	for what, kept := range map[string]metav1.Object{"ManagedCluster": f.clusters["a"], "ClusterConnection": f.connections["a"]} {
		if len(kept.GetManagedFields()) > 0 {
			t.Errorf("the managed fields of the %s are kept", what)
		}
	}
	if len(f.clusters["a"].Annotations) > 0 {
		t.Error("the annotation of an agent is kept")
	}
}
