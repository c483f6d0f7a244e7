// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"fmt"
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
	byClaim    = "clusterID" // ManagedClusters that wait to be let in, by what their agents say
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
		if c := view.IdentityFromCluster(mc, nil); c.AwaitsAcceptance() {
			return one(c.Claimed)
		}
		return nil // it does not matter what it says, and any number may say the same
	}}}
	if !connections {
		return list
	}
	return append(list, index{&fleetv1alpha1.ClusterConnection{}, byIdentity, func(obj client.Object) []string {
		connection, _ := obj.(*fleetv1alpha1.ClusterConnection)
		return one(connection.Identity())
	}})
}

// identityHolders keeps who has which identity, as long as the cache may not know yet. A
// cluster has one: where the hub keeps none for it, its agent says another as it likes.
// The zero value is ready for use; it is safe for concurrent use.
type identityHolders struct {
	mu    sync.Mutex
	names map[string]string // by identity
	ids   map[string]string // by name
}

// takeIdentity gives an identity to a cluster in place of the one that it had, unless another
// one has it that still counts. It returns the one that has it then.
func (h *identityHolders) takeIdentity(id, name string, counts func(name string) bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if holder := h.names[id]; holder != "" && holder != name && counts(holder) {
		return holder
	}
	h.releaseIdentity(name)
	if h.names == nil {
		h.names, h.ids = map[string]string{}, map[string]string{}
	}
	h.names[id], h.ids[name] = name, id
	return name
}

// dropIdentity takes back what a cluster has.
func (h *identityHolders) dropIdentity(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseIdentity(name)
}

// releaseIdentity forgets what a cluster has. The caller has the lock.
func (h *identityHolders) releaseIdentity(name string) {
	if id, has := h.ids[name]; has {
		delete(h.ids, name)
		if h.names[id] == name { // and not another's, for which it did not count any more
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
	mine := view.IdentityFromCluster(mc, connection)
	if mine.Mode == view.Push {
		return clusterStanding{}, nil // the push agent sees for itself
	}
	id := cmp.Or(mine.Held, mine.Claimed)
	if id == "" {
		return clusterStanding{}, nil
	}
	first, found, err := c.firstOfIdentity(ctx, id, mine)
	if err != nil {
		return clusterStanding{}, err
	}
	if found {
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

// firstOfIdentity returns the cluster that was there as the one of an identity before the given one: one that
// has it, or else one of those that wait and say so. Whoever joins may have any number of clusters say
// so, each of which asks this, so the latter are looked at only where nobody has it, and not whole.
func (c *ClusterLifecycleController) firstOfIdentity(ctx context.Context, id string, mine view.Cluster) (view.Cluster, bool, error) {
	others, err := c.clustersHeldFor(ctx, id)
	if err != nil {
		return view.Cluster{}, false, err
	}
	first, found := view.NewFleet(others...).FirstOfIdentity(id, mine)
	if mine.Admission == view.Admitted || found && first.Admission == view.Admitted {
		return first, found, nil
	}
	waiting := &clusterv1.ManagedClusterList{}
	if err := c.Client.List(ctx, waiting, client.MatchingFields{byClaim: id}, client.UnsafeDisableDeepCopy); err != nil {
		return view.Cluster{}, false, fmt.Errorf("listing ManagedClusters of cluster %s: %w", id, err)
	}
	claimants := map[string]*clusterv1.ManagedCluster{}
	for i := range waiting.Items {
		claimants[waiting.Items[i].Name] = &waiting.Items[i]
	}
	for _, held := range others {
		delete(claimants, held.Name)
	}
	for _, mc := range claimants {
		others = append(others, view.IdentityFromCluster(mc, nil))
	}
	first, found = view.NewFleet(others...).FirstOfIdentity(id, mine)
	if mc, claims := claimants[first.Name]; found && claims { // its connection says who dials
		connection, err := c.writer.getConnection(ctx, first.Name)
		return view.IdentityFromCluster(mc, connection), true, err
	}
	return first, found, nil
}

// clustersHeldFor returns the clusters that the hub holds for the one of an identity.
func (c *ClusterLifecycleController) clustersHeldFor(ctx context.Context, id string) ([]view.Cluster, error) {
	if !c.writer.keepsConnections() {
		return nil, nil
	}
	connections := &fleetv1alpha1.ClusterConnectionList{}
	if err := c.Client.List(ctx, connections, client.MatchingFields{byIdentity: id}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterConnections of cluster %s: %w", id, err)
	}
	var holders []view.Cluster
	for i := range connections.Items {
		held := &clusterv1.ManagedCluster{}
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(&connections.Items[i]), held)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading ManagedCluster %q: %w", connections.Items[i].Name, err)
		}
		if err == nil {
			holders = append(holders, view.IdentityFromCluster(held, &connections.Items[i]))
		}
	}
	return holders, nil
}

// refuseTwin leaves a cluster outside that is there already under another name.
func (c *ClusterLifecycleController) refuseTwin(ctx context.Context, mc *clusterv1.ManagedCluster, s clusterStanding) (ctrl.Result, error) {
	setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined, fmt.Sprintf(
		"this cluster (UID of its kube-system namespace: %s) has already joined under the name %q; delete one of the two ManagedClusters", s.id, s.first))
	return ctrl.Result{RequeueAfter: twinRetry}, c.writer.reduceAccess(ctx, mc, true)
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
		if view.IdentityFromCluster(mc, nil).Admission == view.Twin ||
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
