// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// GatherPlacements reads all Placements, and the replica sets that use them.
func (e *Evidence) GatherPlacements(ctx context.Context, settings *rest.Config) error {
	c, err := newEvidenceClient(settings)
	if err != nil {
		return err
	}
	runParallel(
		func() { e.Placements = readList(ctx, c, &clusterv1beta1.PlacementList{}) },
		func() { e.ReplicaSets = readList(ctx, c, &workv1alpha1.ManifestWorkReplicaSetList{}) },
	)
	return nil
}

// GatherFleet reads what the hub knows about all clusters, by a few lists. The
// grants, namespaces and credentials of single clusters are not read.
func GatherFleet(ctx context.Context, settings *rest.Config) (Reading[[]*ClusterEvidence], error) {
	c, err := newEvidenceClient(settings)
	if err != nil {
		return Reading[[]*ClusterEvidence]{}, err
	}
	var clusters Reading[*clusterv1.ManagedClusterList]
	var connected Reading[*fleetv1alpha1.ClusterConnectionList]
	var leases Reading[*coordinationv1.LeaseList]
	var all Reading[*workv1.ManifestWorkList]
	runParallel(
		func() { clusters = readList(ctx, c, &clusterv1.ManagedClusterList{}) },
		func() { connected = listConnections(ctx, c) },
		func() {
			leases = readList(ctx, c, &coordinationv1.LeaseList{}, client.MatchingFields{"metadata.name": clusterv1.LeaseName})
		},
		func() { all = listWorks(ctx, c, "") },
	)
	if !clusters.Found {
		return Reading[[]*ClusterEvidence]{Err: clusters.Err}, nil
	}
	fleet := []*ClusterEvidence{}
	byName := map[string]*ClusterEvidence{}
	for i := range clusters.Value.Items {
		mc := &clusters.Value.Items[i]
		cluster := &ClusterEvidence{
			Name: mc.Name, Managed: Reading[*clusterv1.ManagedCluster]{Value: mc, Found: true},
			Connection: Reading[*fleetv1alpha1.ClusterConnection]{Err: connected.Err},
			Lease:      Reading[*coordinationv1.Lease]{Err: leases.Err},
			Works:      Reading[*workv1.ManifestWorkList]{Value: &workv1.ManifestWorkList{}, Found: all.Found, Err: all.Err},
		}
		fleet = append(fleet, cluster)
		byName[mc.Name] = cluster
	}
	if connected.Found {
		for i := range connected.Value.Items {
			if cluster := byName[connected.Value.Items[i].Name]; cluster != nil {
				cluster.Connection = Reading[*fleetv1alpha1.ClusterConnection]{Value: &connected.Value.Items[i], Found: true}
			}
		}
	}
	if leases.Found {
		for i := range leases.Value.Items {
			if cluster := byName[leases.Value.Items[i].Namespace]; cluster != nil {
				cluster.Lease = Reading[*coordinationv1.Lease]{Value: &leases.Value.Items[i], Found: true}
			}
		}
	}
	if all.Found {
		for i := range all.Value.Items {
			if cluster := byName[all.Value.Items[i].Namespace]; cluster != nil {
				cluster.Works.Value.Items = append(cluster.Works.Value.Items, all.Value.Items[i])
			}
		}
	}
	return Reading[[]*ClusterEvidence]{Value: fleet, Found: true}, nil
}
