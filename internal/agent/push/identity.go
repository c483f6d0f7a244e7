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
	"github.com/capstan-io/capstan/internal/dial"
)

// recognise tells whether the agent may work for the cluster that answered: it
// is the one that it was before, and the hub accepts it under no other name. What
// agents of Pull clusters say of themselves does not count, only who the hub
// holds them for.
func (a *Agent) recognise(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, id string) (dial.Problem, error) {
	if known := connection.Identity(); known != "" && known != id {
		return dial.Problem{
			Reason:  fleetv1alpha1.ClusterConnectionReasonIdentityChanged,
			Message: fmt.Sprintf("the cluster at the endpoint is %s, but %q is the cluster %s; if that is meant, delete the ClusterConnection and apply it again", id, connection.Name, known),
		}, nil
	}
	connections := &fleetv1alpha1.ClusterConnectionList{}
	if err := a.hub.List(ctx, connections, client.UnsafeDisableDeepCopy); err != nil {
		return dial.Problem{}, fmt.Errorf("looking whether another cluster than %q is %s: %w", connection.Name, id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	other := a.identities[id]
	for i := range connections.Items {
		c := &connections.Items[i]
		if c.Name == connection.Name || c.Identity() != id {
			continue
		}
		if in, err := a.accepted(ctx, c.Name); err != nil {
			return dial.Problem{}, err
		} else if in {
			other = c.Name
		}
	}
	if other != "" && other != connection.Name {
		return dial.Problem{
			Reason:  fleetv1alpha1.ClusterConnectionReasonAlreadyJoined,
			Message: fmt.Sprintf("this cluster (%s) has joined already, under the name %q; delete one of both ManagedClusters", id, other),
		}, nil
	}
	a.identities[id] = connection.Name
	return dial.Problem{}, nil
}

// accepted tells whether the hub accepts a cluster. One that it does not accept
// keeps nobody out.
func (a *Agent) accepted(ctx context.Context, name string) (bool, error) {
	cluster := &clusterv1.ManagedCluster{}
	err := a.hub.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading ManagedCluster %q: %w", name, err)
	}
	return uninvited(name, cluster).None(), nil
}

// release forgets who the cluster of a session was.
func (a *Agent) release(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, owner := range a.identities {
		if owner == name {
			delete(a.identities, id)
		}
	}
}
