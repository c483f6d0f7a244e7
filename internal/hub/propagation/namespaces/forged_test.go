// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// TestANamespaceGoesToClustersOnly has a binding whose author wrote the names of
// namespaces into it, and one of a cluster that only asks to be accepted: a work there
// would keep the namespace of somebody else from being deleted.
func TestANamespaceGoesToClustersOnly(t *testing.T) {
	scheme := runtime.NewScheme()
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
	c := NewNamespaceController(NamespaceDeps{Events: events.NewDiscardRecorder(), Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		shop, b,
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "accepted"}, Spec: accepted},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "deleting", DeletionTimestamp: &now, Finalizers: []string{"example.io/kept"}}, Spec: accepted},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "dialled"}},
		&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "dialled"}, Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush}},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "asks"}},
	).Build()})
	targets, failed := c.namespaceTargets(t.Context(), shop)
	works, problems, err := c.renderNamespaceWorks(t.Context(), shop, targets)
	if err := errors.Join(failed, err); err != nil {
		t.Fatal(err)
	}
	if is, want := slices.Sorted(maps.Keys(works)), []string{"accepted", "dialled"}; !slices.Equal(is, want) {
		t.Errorf("works are made in the namespaces %v, want %v", is, want)
	}
	if is, want := slices.Sorted(maps.Keys(problems)), []string{"asks", metav1.NamespaceSystem, "victim"}; !slices.Equal(is, want) {
		t.Errorf("problems are told of %v, want %v", is, want) // what is there stays as it is
	}
}
