// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// A cluster has one name only. Who it is stands on its ClusterConnection, where
// agents cannot change it, from the moment the hub accepts it; what an agent
// says counts only until then. So a cluster that claims to be another one is
// refused itself, and the other one does not notice.

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

func indexes() []index {
	one := func(id string) []string {
		if id == "" {
			return nil
		}
		return []string{id}
	}
	return []index{
		{&fleetv1alpha1.ClusterConnection{}, byIdentity, func(obj client.Object) []string {
			connection, _ := obj.(*fleetv1alpha1.ClusterConnection)
			return one(connection.Identity())
		}},
		{&clusterv1.ManagedCluster{}, byClaim, func(obj client.Object) []string {
			return one(obj.GetAnnotations()[clusterv1.AnnotationClusterUID])
		}},
	}
}

// holders keeps who has which identity, as long as the cache may not know yet.
// The zero value is ready for use; it is safe for concurrent use.
type holders struct {
	mu    sync.Mutex
	names map[string]string // by identity
}

// take gives an identity to a cluster, unless another one has it that still
// counts. It returns the one that has it then.
func (h *holders) take(id, name string, counts func(name string) bool) string {
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

// drop takes back what a cluster has.
func (h *holders) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, holder := range h.names {
		if holder == name {
			delete(h.names, id)
		}
	}
}

// identify returns who a cluster is, "" if that is not known yet or not for the
// hub to say, and the name under which the same cluster is there already, if it
// is. The identity is the cluster's from now on if nobody else has it.
func (c *Controller) identify(ctx context.Context, mc *clusterv1.ManagedCluster) (id, other string, err error) {
	connection, err := c.writer.connection(ctx, mc.Name)
	if err != nil {
		return "", "", err
	}
	id = mc.Annotations[clusterv1.AnnotationClusterUID]
	if connection != nil {
		if connection.Spec.SyncMode == fleetv1alpha1.SyncModePush {
			return "", "", nil // the push agent sees for itself
		}
		id = cmp.Or(connection.Identity(), id, connection.Status.ID)
	}
	if id == "" {
		return "", "", nil
	}
	if other, err = c.twin(ctx, mc, id); err != nil || other != "" {
		return id, other, err
	}
	holder := c.holders.take(id, mc.Name, func(name string) bool {
		held := &clusterv1.ManagedCluster{}
		return c.Client.Get(ctx, client.ObjectKey{Name: name}, held) == nil && held.Spec.HubAcceptsClient
	})
	if holder != mc.Name {
		other = holder
	}
	return id, other, nil
}

// twin returns another cluster of the same identity that was first: one that is
// accepted or, if both wait to be, the older one.
func (c *Controller) twin(ctx context.Context, mc *clusterv1.ManagedCluster, id string) (string, error) {
	connections, claims := &fleetv1alpha1.ClusterConnectionList{}, &clusterv1.ManagedClusterList{}
	if err := c.Client.List(ctx, connections, client.MatchingFields{byIdentity: id}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing ClusterConnections of cluster %s: %w", id, err)
	}
	for i := range connections.Items {
		name := connections.Items[i].Name
		if name == mc.Name {
			continue
		}
		held := &clusterv1.ManagedCluster{}
		err := c.Client.Get(ctx, client.ObjectKey{Name: name}, held)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading ManagedCluster %q: %w", name, err)
		}
		if !apierrors.IsNotFound(err) && held.Spec.HubAcceptsClient && saysAccepted(held) {
			return name, nil
		}
	}
	if saysAccepted(mc) {
		return "", nil
	}
	if err := c.Client.List(ctx, claims, client.MatchingFields{byClaim: id}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing ManagedClusters of cluster %s: %w", id, err)
	}
	for i := range claims.Items {
		if other := &claims.Items[i]; other.Name != mc.Name && waits(other) && before(other, mc) {
			return other.Name, nil
		}
	}
	return "", nil
}

// waits tells whether a cluster is about to be accepted, or would be if it were
// not there already.
func waits(mc *clusterv1.ManagedCluster) bool {
	accepted := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	return mc.Spec.HubAcceptsClient && mc.DeletionTimestamp.IsZero() &&
		(accepted == nil || accepted.Reason == clusterv1.ManagedClusterReasonAlreadyJoined)
}

func before(a, b *clusterv1.ManagedCluster) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// refuseTwin leaves a cluster outside that is there already under another name.
func (c *Controller) refuseTwin(ctx context.Context, mc *clusterv1.ManagedCluster, id, other string) (ctrl.Result, error) {
	setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonAlreadyJoined, fmt.Sprintf(
		"this cluster (UID of its kube-system namespace: %s) has joined already, under the name %q; delete one of both ManagedClusters", id, other))
	return ctrl.Result{RequeueAfter: namespaceRetry}, c.writer.reduce(ctx, mc.Name)
}

// warnOfTwin tells of a cluster whose agent said only after it was accepted who
// it is. It stays: it must not matter what agents claim later.
func (c *Controller) warnOfTwin(mc *clusterv1.ManagedCluster, id, other string) {
	c.Events.Eventf(mc, nil, corev1.EventTypeWarning, clusterv1.ManagedClusterReasonAlreadyJoined, "Accept",
		"its agent says that this is the cluster %s, which has joined already, under the name %q; if that is true, delete one of both ManagedClusters", id, other)
}

// twins returns the clusters that wait for another one to go.
func (c *Controller) twins(ctx context.Context, _ client.Object) []reconcile.Request {
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.Client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		mc := &clusters.Items[i]
		if accepted := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted); accepted != nil &&
			accepted.Reason == clusterv1.ManagedClusterReasonAlreadyJoined {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
		}
	}
	return requests
}

// leaves passes that a cluster is gone or not accepted any more.
func leaves() predicate.Predicate {
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
