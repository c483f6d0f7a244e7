// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// annotationClusterUID on a ManagedCluster is where the agent of a Pull cluster
// writes who its cluster is.
const annotationClusterUID = "agent.open-cluster-management.io/cluster-uid"

// recognise tells whether the agent may work for the cluster that answered: it
// is the one that it was before, and has no other name.
func (a *Agent) recognise(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, id string) (finding, error) {
	if known := connection.Status.ID; known != "" && known != id {
		return finding{
			fleetv1alpha1.ClusterConnectionReasonIdentityChanged,
			fmt.Sprintf("the cluster at the endpoint is %s, but %q is the cluster %s; if that is meant, delete the ClusterConnection and create it again", id, connection.Name, known),
		}, nil
	}
	clusters, connections := &clusterv1.ManagedClusterList{}, &fleetv1alpha1.ClusterConnectionList{}
	for _, list := range []client.ObjectList{clusters, connections} {
		if err := a.hub.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return finding{}, fmt.Errorf("looking whether another cluster than %q is %s: %w", connection.Name, id, err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	other := a.identities[id]
	if connection.Status.ID == id {
		other = "" // who came first stays
	}
	for i := range connections.Items {
		if c := &connections.Items[i]; c.Status.ID == id && connection.Status.ID != id && c.Name != connection.Name {
			other = c.Name
		}
	}
	for i := range clusters.Items {
		mc := &clusters.Items[i]
		if mc.Name != connection.Name && connection.Status.ID != id && identityOf(mc) == id {
			other = mc.Name
		}
	}
	if other != "" && other != connection.Name {
		return finding{
			fleetv1alpha1.ClusterConnectionReasonAlreadyJoined,
			fmt.Sprintf("this cluster (%s) has joined already, under the name %q", id, other),
		}, nil
	}
	a.identities[id] = connection.Name
	return finding{}, nil
}

// release forgets who the cluster of a link was.
func (a *Agent) release(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, owner := range a.identities {
		if owner == name {
			delete(a.identities, id)
		}
	}
}

// identityOf returns who a ManagedCluster is by what its agent told; empty if
// that is not known.
func identityOf(mc *clusterv1.ManagedCluster) string {
	if id := mc.Annotations[annotationClusterUID]; id != "" {
		return id
	}
	for _, claim := range mc.Status.ClusterClaims {
		if claim.Name == clusterv1alpha1.ClaimID {
			return claim.Value
		}
	}
	return ""
}
