// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// looks counts the namespaces that are to be looked at now, and has the longest time after which others are.
type looks struct {
	namespaceQueue
	now   int
	after time.Duration
}

func (l *looks) Add(reconcile.Request) { l.now++ }

func (l *looks) AddAfter(_ reconcile.Request, after time.Duration) {
	if after <= 0 {
		l.now++
	}
	l.after = max(l.after, after)
}

// TestARegionThatFlapsLeavesWorkersToOthers has an agent say for ten minutes, a hundred times in each, that its
// cluster is in another region, in its claims and in its ClusterConnection. Each look at a namespace is one
// at all of its clusters.
func TestARegionThatFlapsLeavesWorkersToOthers(t *testing.T) {
	const namespaces, minutes, perMinute = 5, 10, 100
	scheme := runtime.NewScheme()
	expect.NoError(t, errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme)))
	hub := fake.NewClientBuilder().WithScheme(scheme)
	for i := range namespaces {
		hub.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("shop-", i)}})
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	c := NewNamespaceController(NamespaceDeps{Client: hub.Build(), Clock: clk, Everywhere: true})
	watched := c.onCluster()
	cluster := func(region, env string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "flaps", Labels: map[string]string{"env": env}}}
		mc.Spec.HubAcceptsClient = true
		mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "region.open-cluster-management.io", Value: region}}
		return mc
	}
	connection := func(region string) *fleetv1alpha1.ClusterConnection {
		return &fleetv1alpha1.ClusterConnection{
			ObjectMeta: metav1.ObjectMeta{Name: "flaps"}, Status: fleetv1alpha1.ClusterConnectionStatus{Region: region},
		}
	}
	regions := []string{"east", "west"}
	flap := func(saying func(region string) client.Object) (q *looks) {
		q = &looks{}
		for turn := range minutes * perMinute {
			watched.Update(t.Context(), event.UpdateEvent{ObjectOld: saying(regions[turn%2]), ObjectNew: saying(regions[(turn+1)%2])}, q)
			clk.SetTime(clk.Now().Add(time.Minute / perMinute))
		}
		return q
	}
	objects := map[string]func(region string) client.Object{
		"its claims":            func(region string) client.Object { return cluster(region, "test") },
		"its ClusterConnection": func(region string) client.Object { return connection(region) },
	}
	for what, saying := range objects {
		if q := flap(saying); q.now > 0 || q.after > 0 {
			t.Errorf("no policy is about namespaces, and by %s they are looked at %d times at once, and after %s", what, q.now, q.after)
		}
	}
	expect.NoError(t, c.Client.Create(t.Context(), &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "by-region"}, Spec: policyv1alpha1.OverrideSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Namespace"}},
	}}))
	for what, saying := range objects {
		q := flap(saying)
		if most := namespaces * (fleet.HeardAtOnce + minutes); q.now == 0 || q.now > most {
			t.Errorf("by %s, namespaces are looked at %d times at once in %d minutes, want some, and %d at most", what, q.now, minutes, most)
		}
		if q.after == 0 || q.after > fleet.HeardEvery {
			t.Errorf("what %s says last is heard after %s, want %s at most", what, q.after, fleet.HeardEvery)
		}
	}
	for what, changed := range map[string]*clusterv1.ManagedCluster{"labels": cluster("east", "production"), "denies": {ObjectMeta: metav1.ObjectMeta{Name: "flaps"}}} {
		q := &looks{}
		watched.Update(t.Context(), event.UpdateEvent{ObjectOld: cluster("east", "test"), ObjectNew: changed}, q)
		if q.now != namespaces || q.after > 0 {
			t.Errorf("an administrator %s the cluster, and %d namespaces are looked at at once, want %d; the last after %s", what, q.now, namespaces, q.after)
		}
	}
}
