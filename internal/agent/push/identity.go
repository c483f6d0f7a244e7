// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// verifyIdentity reports whether the agent may work for the cluster that answered: it
// is the one that it was before, and the hub accepts it under no other name. What
// agents of Pull clusters say of themselves does not count, only who the hub
// holds them for.
func (a *Agent) verifyIdentity(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, id string) (dial.ConnectionProblem, error) {
	if known := view.FromCluster(nil, connection).Held; known != "" && known != id {
		return dial.ConnectionProblem{
			Reason:  fleetv1alpha1.ClusterConnectionReasonIdentityChanged,
			Message: fmt.Sprintf("the cluster at the endpoint is %s, but %q is the cluster %s; if this is intended, delete the ClusterConnection and apply it again", id, connection.Name, known),
		}, nil
	}
	others, err := a.heldClusters(ctx, id)
	if err != nil {
		return dial.ConnectionProblem{}, fmt.Errorf("checking whether a cluster other than %q is %s: %w", connection.Name, id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	other := a.identities[id]
	if first, found := others.FirstOfIdentity(id, view.FromCluster(nil, connection)); found {
		other = first.Name
	}
	if other != "" && other != connection.Name {
		return dial.ConnectionProblem{
			Reason:  fleetv1alpha1.ClusterConnectionReasonAlreadyJoined,
			Message: fmt.Sprintf("this cluster (%s) has already joined under the name %q; delete one of the two ManagedClusters", id, other),
		}, nil
	}
	a.identities[id] = connection.Name
	return dial.ConnectionProblem{}, nil
}

// indexIdentity finds ClusterConnections by who the hub holds their clusters for.
const indexIdentity = "identity"

func indexByIdentity(obj client.Object) []string {
	connection, _ := obj.(*fleetv1alpha1.ClusterConnection)
	if held := view.FromCluster(nil, connection).Held; held != "" {
		return []string{held}
	}
	return nil
}

// heldClusters returns the clusters that the hub holds for the one of an identity.
func (a *Agent) heldClusters(ctx context.Context, id string) (view.Fleet, error) {
	connections := &fleetv1alpha1.ClusterConnectionList{}
	if err := a.hub.List(ctx, connections, client.MatchingFields{indexIdentity: id}, client.UnsafeDisableDeepCopy); err != nil {
		return view.Fleet{}, fmt.Errorf("listing ClusterConnections: %w", err)
	}
	var clusters []view.Cluster
	for i := range connections.Items {
		connection := &connections.Items[i]
		cluster := &clusterv1.ManagedCluster{}
		err := a.hub.Get(ctx, client.ObjectKeyFromObject(connection), cluster)
		if apierrors.IsNotFound(err) {
			continue // what is left of a cluster keeps nobody out
		}
		if err != nil {
			return view.Fleet{}, fmt.Errorf("reading ManagedCluster %q: %w", connection.Name, err)
		}
		clusters = append(clusters, view.FromCluster(cluster, connection))
	}
	return view.NewFleet(clusters...), nil
}

// releaseIdentity forgets who the cluster of a session was.
func (a *Agent) releaseIdentity(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, owner := range a.identities {
		if owner == name {
			delete(a.identities, id)
		}
	}
}
