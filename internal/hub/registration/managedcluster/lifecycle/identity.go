// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// Who a cluster is stands on its ClusterConnection, where agents cannot change
// it, from the moment the hub accepts it; what an agent says counts only until
// then. So a cluster that claims to be another one gains nothing, and the other
// one does not notice. One cluster under two names has the identity once: the
// later one goes without, or is kept out.

// Indexes of the cache.
const (
	byIdentity = "identity"  // ClusterConnections by who the hub holds their clusters for
	byClaim    = "clusterID" // ManagedClusters by what their agents say
)

// index is one of them.
type index struct {
	of     client.Object
	name   string
	values func(client.Object) []string
}

// indexes returns those of a hub, which may keep no ClusterConnections.
func indexes(connections bool) []index {
	one := func(id string) []string {
		if id == "" {
			return nil
		}
		return []string{id}
	}
	list := []index{{&clusterv1.ManagedCluster{}, byClaim, func(obj client.Object) []string {
		mc, _ := obj.(*clusterv1.ManagedCluster)
		return one(view.FromCluster(mc, nil).Claimed)
	}}}
	if !connections {
		return list
	}
	return append(list, index{&fleetv1alpha1.ClusterConnection{}, byIdentity, func(obj client.Object) []string {
		connection, _ := obj.(*fleetv1alpha1.ClusterConnection)
		return one(view.FromCluster(nil, connection).Held)
	}})
}

// identityHolders keeps who has which identity, as long as the cache may not know yet.
// The zero value is ready for use; it is safe for concurrent use.
type identityHolders struct {
	mu    sync.Mutex
	names map[string]string // by identity
}

// takeIdentity gives an identity to a cluster, unless another one has it that still
// counts. It returns the one that has it then.
func (h *identityHolders) takeIdentity(id, name string, counts func(name string) bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if holder := h.names[id]; holder != "" && holder != name && counts(holder) {
		return holder
	}
	if h.names == nil {
		h.names = map[string]string{}
	}
	h.names[id] = name
	return name
}

// dropIdentity takes back what a cluster has.
func (h *identityHolders) dropIdentity(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, holder := range h.names {
		if holder == name {
			delete(h.names, id)
		}
	}
}

// clusterStanding is who a cluster is, and whether it is there already.
type clusterStanding struct {
	// id is "" if it is not known yet, or not for the hub to say.
	id string
	// first is the name under which the same cluster is there already, "" if it is
	// not. It has the identity then.
	first string
	// excluded says that the cluster must not have another name besides.
	excluded bool
}

// identify returns how a cluster stands. The identity is the cluster's from now
// on if nobody else has it.
func (c *ClusterLifecycleController) identify(ctx context.Context, mc *clusterv1.ManagedCluster) (clusterStanding, error) {
	connection, err := c.writer.getConnection(ctx, mc.Name)
	if err != nil {
		return clusterStanding{}, err
	}
	mine := view.FromCluster(mc, connection)
	if mine.Mode == view.Push {
		return clusterStanding{}, nil // the push agent sees for itself
	}
	id := cmp.Or(mine.Held, mine.Claimed)
	if id == "" {
		return clusterStanding{}, nil
	}
	others, err := c.identityClaimants(ctx, id)
	if err != nil {
		return clusterStanding{}, err
	}
	if first, found := others.FirstOfIdentity(id, mine); found {
		return clusterStanding{id: id, first: first.Name, excluded: c.Unique || !view.MayShare(first, mine)}, nil
	}
	holder := c.holders.takeIdentity(id, mc.Name, func(name string) bool {
		held := &clusterv1.ManagedCluster{}
		return c.Client.Get(ctx, client.ObjectKey{Name: name}, held) == nil && held.Spec.HubAcceptsClient
	})
	if holder != mc.Name {
		return clusterStanding{id: id, first: holder, excluded: c.Unique}, nil // only Pull clusters take one here
	}
	return clusterStanding{id: id}, nil
}

// identityClaimants returns the clusters that have an identity or say so.
func (c *ClusterLifecycleController) identityClaimants(ctx context.Context, id string) (view.Fleet, error) {
	connections := &fleetv1alpha1.ClusterConnectionList{}
	claims := &clusterv1.ManagedClusterList{}
	if c.writer.keepsConnections() {
		if err := c.Client.List(ctx, connections, client.MatchingFields{byIdentity: id}, client.UnsafeDisableDeepCopy); err != nil {
			return view.Fleet{}, fmt.Errorf("listing ClusterConnections of cluster %s: %w", id, err)
		}
	}
	if err := c.Client.List(ctx, claims, client.MatchingFields{byClaim: id}, client.UnsafeDisableDeepCopy); err != nil {
		return view.Fleet{}, fmt.Errorf("listing ManagedClusters of cluster %s: %w", id, err)
	}
	found := map[string]view.Cluster{}
	for i := range claims.Items {
		connection, err := c.writer.getConnection(ctx, claims.Items[i].Name)
		if err != nil {
			return view.Fleet{}, err
		}
		found[claims.Items[i].Name] = view.FromCluster(&claims.Items[i], connection)
	}
	for i := range connections.Items {
		held := &clusterv1.ManagedCluster{}
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(&connections.Items[i]), held)
		if client.IgnoreNotFound(err) != nil {
			return view.Fleet{}, fmt.Errorf("reading ManagedCluster %q: %w", connections.Items[i].Name, err)
		}
		if err == nil {
			found[held.Name] = view.FromCluster(held, &connections.Items[i])
		}
	}
	return view.NewFleet(slices.Collect(maps.Values(found))...), nil
}

// refuseTwin leaves a cluster outside that is there already under another name.
func (c *ClusterLifecycleController) refuseTwin(ctx context.Context, mc *clusterv1.ManagedCluster, s clusterStanding) (ctrl.Result, error) {
	setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined, fmt.Sprintf(
		"this cluster (UID of its kube-system namespace: %s) has already joined under the name %q; delete one of the two ManagedClusters", s.id, s.first))
	return ctrl.Result{RequeueAfter: namespaceRetry}, c.writer.reduceAccess(ctx, mc, true)
}

// twinClusters returns the clusters that wait for another one to go, or stand behind it.
func (c *ClusterLifecycleController) twinClusters(ctx context.Context, _ client.Object) []reconcile.Request {
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.Client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		mc := &clusters.Items[i]
		if view.FromCluster(mc, nil).Admission == view.Twin ||
			meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
		}
	}
	return requests
}

// leavesFleet passes that a cluster is gone or not accepted any more.
func leavesFleet() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, _ := e.ObjectOld.(*clusterv1.ManagedCluster)
			after, _ := e.ObjectNew.(*clusterv1.ManagedCluster)
			return before != nil && after != nil && saysAccepted(before) && !saysAccepted(after)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
