// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet is the fleet as the propagation controller knows it, kept up to
// date by events.
package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	slim "github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/written"
)

// Fleet is all clusters that the hub has accepted or may accept. It is safe for
// concurrent use.
type Fleet struct {
	mu          sync.Mutex
	clusters    map[string]*clusterv1.ManagedCluster
	connections map[string]*fleetv1alpha1.ClusterConnection
	snapshot    view.Fleet
	loaded      bool
	clock       clock.PassiveClock
	// came is when clusters did that have come since the fleet was loaded.
	came map[string]time.Time
}

// Settling is how long it may take until everything is decided anew after a
// cluster has come.
const Settling = 10 * time.Second

// NewFleet returns a fleet without clusters.
func NewFleet(clk clock.PassiveClock) *Fleet {
	return &Fleet{
		clusters: map[string]*clusterv1.ManagedCluster{}, connections: map[string]*fleetv1alpha1.ClusterConnection{},
		clock: clk, came: map[string]time.Time{},
	}
}

// pageSize is how many clusters are read at a time: agents may make each of them a megabyte.
const pageSize = 100

// LoadClusters reads the clusters that there are, the first time that it is called: who
// decides by a fleet that is not complete moves everything. The reader is to be no
// cache, as that of a replica which has just got the lead may be behind. What
// events have told before counts unless it is older: it is in the cache, too, and a copy of
// every cluster besides would be twice the memory.
func (f *Fleet) LoadClusters(ctx context.Context, reader client.Reader) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded {
		return nil
	}
	err := readPages(ctx, reader, func(page *fleetv1alpha1.ClusterConnectionList) {
		for _, is := range page.Items { // copies, as the address of one would keep the page
			if known := f.connections[is.Name]; known == nil || !written.IsSince(known.ResourceVersion, is.ResourceVersion) {
				is.ManagedFields = nil
				f.connections[is.Name] = &is
			}
		}
	})
	if err != nil {
		return err
	}
	err = readPages(ctx, reader, func(page *clusterv1.ManagedClusterList) {
		for i := range page.Items {
			is := &page.Items[i]
			if known := f.clusters[is.Name]; known == nil || !written.IsSince(known.ResourceVersion, is.ResourceVersion) {
				f.clusters[is.Name] = slim.SlimmedCluster(is)
			}
			f.updateSnapshot(is.Name)
		}
	})
	f.loaded = err == nil
	return err
}

// readPages reads all objects of a kind, and has each page of them looked at.
func readPages[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, look func(page L)) error {
	next := ""
	for {
		page := L(new(T))
		if err := reader.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing %T: %w", page, err)
		}
		look(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// Snapshot returns the fleet as it is now.
func (f *Fleet) Snapshot() view.Fleet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

// Settled reports whether there is a cluster of the name, and has been for so long
// that what is not wanted there by now is not wanted.
func (f *Fleet) Settled(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clusters[name] != nil && f.clock.Since(f.came[name]) >= Settling
}

// SetCluster notes a ManagedCluster, or that there is none of the name any more.
// It returns what the cluster was and is, nil for none.
func (f *Fleet) SetCluster(name string, cluster *clusterv1.ManagedCluster) (before, after *view.Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case cluster == nil:
		delete(f.clusters, name)
	case !isNewerObject(f.clusters[name], cluster):
		f.clusters[name] = cluster
	}
	return f.updateSnapshot(name)
}

// SetConnection notes a ClusterConnection, as SetCluster does.
func (f *Fleet) SetConnection(name string, connection *fleetv1alpha1.ClusterConnection) (before, after *view.Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case connection == nil:
		delete(f.connections, name)
	case !isNewerObject(f.connections[name], connection):
		f.connections[name] = connection
	}
	return f.updateSnapshot(name)
}

// isNewerObject reports whether the hub has written what is known, which may be nothing,
// after what is told.
func isNewerObject[T any, O interface {
	*T
	metav1.Object
}](known, told O) bool {
	if known == nil {
		return false
	}
	return written.IsAfter(known.GetResourceVersion(), told.GetResourceVersion())
}

// updateSnapshot makes the snapshot anew for one cluster. The caller has the lock.
func (f *Fleet) updateSnapshot(name string) (before, after *view.Cluster) {
	if was, found := f.snapshot.ClusterNamed(name); found {
		before = &was
	}
	cluster := f.clusters[name]
	if cluster == nil {
		f.snapshot = f.snapshot.WithClusters(nil, []string{name})
		delete(f.came, name)
		return before, nil
	}
	if before == nil && f.loaded {
		f.came[name] = f.clock.Now()
	}
	is := view.FromClusterWithRoom(cluster, f.connections[name])
	f.snapshot = f.snapshot.WithClusters([]view.Cluster{is}, nil)
	return before, &is
}
