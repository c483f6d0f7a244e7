// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet is the fleet as the propagation controller knows it, kept up to
// date by events.
package fleet

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/fleet/view"
)

// Fleet is all clusters that the hub has accepted or may accept. It is safe for
// concurrent use.
type Fleet struct {
	mu          sync.Mutex
	clusters    map[string]*clusterv1.ManagedCluster
	connections map[string]*fleetv1alpha1.ClusterConnection
	snapshot    view.Fleet
	loaded      bool
}

// New returns a fleet without clusters.
func New() *Fleet {
	return &Fleet{clusters: map[string]*clusterv1.ManagedCluster{}, connections: map[string]*fleetv1alpha1.ClusterConnection{}}
}

// Load reads the clusters that there are, the first time that it is called: who
// decides by a fleet that is not complete moves everything.
func (f *Fleet) Load(ctx context.Context, reader client.Reader) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded {
		return nil
	}
	clusters, connections := &clusterv1.ManagedClusterList{}, &fleetv1alpha1.ClusterConnectionList{}
	for _, list := range []client.ObjectList{clusters, connections} {
		if err := reader.List(ctx, list); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range connections.Items {
		f.connections[connections.Items[i].Name] = &connections.Items[i]
	}
	for i := range clusters.Items {
		f.clusters[clusters.Items[i].Name] = &clusters.Items[i]
		f.update(clusters.Items[i].Name)
	}
	f.loaded = true
	return nil
}

// Snapshot returns the fleet as it is now.
func (f *Fleet) Snapshot() view.Fleet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

// SetCluster notes a ManagedCluster, or that there is none of the name any more.
// It returns what the cluster was and is, nil for none.
func (f *Fleet) SetCluster(name string, cluster *clusterv1.ManagedCluster) (before, after *view.Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cluster == nil {
		delete(f.clusters, name)
	} else {
		f.clusters[name] = cluster
	}
	return f.update(name)
}

// SetConnection notes a ClusterConnection, as SetCluster does.
func (f *Fleet) SetConnection(name string, connection *fleetv1alpha1.ClusterConnection) (before, after *view.Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if connection == nil {
		delete(f.connections, name)
	} else {
		f.connections[name] = connection
	}
	return f.update(name)
}

// update makes the snapshot anew for one cluster. The caller has the lock.
func (f *Fleet) update(name string) (before, after *view.Cluster) {
	if was, found := f.snapshot.Cluster(name); found {
		before = &was
	}
	cluster := f.clusters[name]
	if cluster == nil {
		f.snapshot = f.snapshot.With(nil, []string{name})
		return before, nil
	}
	is := view.Whole(cluster, f.connections[name])
	f.snapshot = f.snapshot.With([]view.Cluster{is}, nil)
	return before, &is
}
