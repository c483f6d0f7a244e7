// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	mirror "github.com/capstan-io/capstan/internal/cluster/projection"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/projection"
)

// manyClusters is the fleet that a hub has to start with.
const manyClusters = 10_000

var errNotFromMemory = errors.New("the API server is asked")

// memory is a cache with everything in it. Whoever writes, or asks for more, gets
// a nil pointer: nothing else of the client is there.
type memory struct {
	client.Client
	clusters    map[string]*clusterv1.ManagedCluster
	connections map[string]*fleetv1alpha1.ClusterConnection
}

func (m *memory) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch obj := obj.(type) {
	case *clusterv1.ManagedCluster:
		m.clusters[key.Name].DeepCopyInto(obj)
	case *fleetv1alpha1.ClusterConnection:
		m.connections[key.Name].DeepCopyInto(obj)
	default:
		return fmt.Errorf("%T: %w", obj, errNotFromMemory)
	}
	return nil
}

// nothingLive is an API server that nobody may ask.
type nothingLive struct{ client.Reader }

func (nothingLive) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errNotFromMemory
}

// unchanged returns a controller with a fleet whose mirrors are right.
func unchanged(clusters int) (*projection.ClusterProjectionController, []ctrl.Request) {
	m := &memory{clusters: map[string]*clusterv1.ManagedCluster{}, connections: map[string]*fleetv1alpha1.ClusterConnection{}}
	requests := make([]ctrl.Request, clusters)
	for i := range clusters {
		name := fmt.Sprintf("cluster-%05d", i)
		mc := &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: metav1.Unix(1_000_000, 0),
				Labels: map[string]string{"zone": "a", "cluster.open-cluster-management.io/clusterset": "default", "vendor": "Kubernetes"},
			},
			Spec: clusterv1.ManagedClusterSpec{
				HubAcceptsClient: true, Taints: []clusterv1.Taint{{Key: "gpu", Effect: clusterv1.TaintEffectNoSelectIfNew}},
			},
		}
		for _, kind := range []string{
			clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined,
			clusterv1.ManagedClusterConditionAvailable, clusterv1.ManagedClusterConditionClockSynced,
		} {
			mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: "it is as it should be", LastTransitionTime: metav1.Unix(1_000_000, 0),
			})
		}
		connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
		mirror.RefreshMirror(connection, mc)
		m.clusters[name], m.connections[name] = mc, connection
		requests[i] = ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	return projection.NewClusterProjectionController(projection.ClusterProjectionDeps{Client: m, Live: nothingLive{}}), requests
}

// TestAStartWithAFleetThatHasNotChangedAsksNobody is about the cost of a restart:
// everything comes from memory, and nothing is written.
func TestAStartWithAFleetThatHasNotChangedAsksNobody(t *testing.T) {
	controller, requests := unchanged(manyClusters)
	for _, request := range requests {
		if result, err := controller.Reconcile(t.Context(), request); err != nil || !result.IsZero() {
			t.Fatalf("%s: %+v, %v", request.Name, result, err)
		}
	}
}

func BenchmarkAnUnchangedCluster(b *testing.B) {
	controller, requests := unchanged(100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := controller.Reconcile(b.Context(), requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
	}
}
