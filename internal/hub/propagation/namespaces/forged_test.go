// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// TestANamespaceGoesToClustersOnly has a binding whose author wrote the names of
// namespaces into it, and one of a cluster that only asks to be accepted: a work there
// would keep the namespace of somebody else from being deleted.
func TestANamespaceGoesToClustersOnly(t *testing.T) {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(
		corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme),
	); err != nil {
		t.Fatal(err)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	for _, name := range []string{"accepted", "dialled", "deleting", "asks", metav1.NamespaceSystem} {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name})
	}
	b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: "shop", Name: "db", Clusters: []workv1alpha2.TargetCluster{{Name: "victim"}}}}
	accepted := clusterv1.ManagedClusterSpec{HubAcceptsClient: true}
	now := metav1.Now()
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		shop, b,
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "accepted"}, Spec: accepted},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "deleting", DeletionTimestamp: &now, Finalizers: []string{"example.io/kept"}}, Spec: accepted},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "dialled"}},
		&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "dialled"}, Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush}},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "asks"}},
	).Build()
	c := NewNamespaceController(NamespaceDeps{Events: events.NewDiscardRecorder(), Client: hub, Fleet: fleet.NewFleet(clock.RealClock{})})
	present := []workv1.ManifestWork{{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "victim"}}}
	loaded := c.Fleet.LoadClusters(t.Context(), hub)
	targets, failed := c.namespaceTargets(t.Context(), shop, present)
	works, problems, err := c.renderNamespaceWorks(t.Context(), shop, targets)
	if err := errors.Join(loaded, failed, err); err != nil {
		t.Fatal(err)
	}
	if is, want := slices.Sorted(maps.Keys(works)), []string{"accepted", "dialled"}; !slices.Equal(is, want) {
		t.Errorf("works are made in the namespaces %v, want %v", is, want)
	}
	if is, want := slices.Sorted(maps.Keys(problems)), []string{"asks", metav1.NamespaceSystem, "victim"}; !slices.Equal(is, want) {
		t.Errorf("problems are told of %v, want %v", is, want) // what is there stays as it is
	}
	targets, failed = c.namespaceTargets(t.Context(), shop, nil)
	if is, want := slices.Sorted(maps.Keys(targets.owners)), []string{"accepted", "asks", "deleting", "dialled"}; failed != nil || !targets.awaits || !slices.Equal(is, want) {
		t.Errorf("where nothing is there, the namespace is for %v, want %v, and others are awaited: %t (%v)", is, want, targets.awaits, failed)
	}
}

// TestNamesThatAreNoClustersTakeNoMemory has bindings that name thousands of clusters which do not exist, each of them again.
func TestNamesThatAreNoClustersTakeNoMemory(t *testing.T) {
	const bindings, names, bytesMax = 100, 10_000, 2 << 20
	h := newFleetHub(t, 1, 1, "shop")
	b := workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "edge-0"}}
	snapshot := workv1alpha2.BindingSnapshot{Namespace: "shop", Name: "db"}
	for i := range names {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprint("none-", i)})
		snapshot.Clusters = append(snapshot.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprint("nor-", i)})
	}
	b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{snapshot}
	h.NamespaceController.Client = interceptor.NewClient(h.Client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // it is one
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if found, is := list.(*workv1alpha2.ResourceBindingList); is {
				found.Items = slices.Repeat([]workv1alpha2.ResourceBinding{b}, bindings) // as a cache that copies nothing
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	if again := h.looksAt("shop"); again != awaitAccepted || h.created.Load() != 1 {
		t.Errorf("%d works are created, want one, and it is looked for the other clusters again after %s, want %s", h.created.Load(), again, awaitAccepted)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	targets, err := h.namespaceTargets(t.Context(), shop, nil)
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; err != nil || len(targets.owners) != 1 || made > bytesMax {
		t.Errorf("for %d clusters %d bytes are made, want %d at most (%v)", len(targets.owners), made, bytesMax, err)
	}
}
