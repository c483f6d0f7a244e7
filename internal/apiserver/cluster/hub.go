// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

// connectionStore are the ClusterConnections of the hub.
type connectionStore interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*fleetv1alpha1.ClusterConnection, error)
	List(ctx context.Context, o metav1.ListOptions, take func(*fleetv1alpha1.ClusterConnection)) (metav1.ListMeta, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Create(ctx context.Context, c *fleetv1alpha1.ClusterConnection, o metav1.CreateOptions) (*fleetv1alpha1.ClusterConnection, error)
	Update(ctx context.Context, c *fleetv1alpha1.ClusterConnection, o metav1.UpdateOptions) (*fleetv1alpha1.ClusterConnection, error)
	UpdateStatus(ctx context.Context, c *fleetv1alpha1.ClusterConnection, o metav1.UpdateOptions) (*fleetv1alpha1.ClusterConnection, error)
}

// managedClusterStore are the ManagedClusters of the hub.
type managedClusterStore interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*clusterv1.ManagedCluster, error)
	Create(ctx context.Context, c *clusterv1.ManagedCluster, o metav1.CreateOptions) (*clusterv1.ManagedCluster, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*clusterv1.ManagedCluster, error)
}

// hubStore is what the hub stores. Nothing of it is cached.
type hubStore struct {
	connections connectionStore
	clusters    managedClusterStore
}

func newHubStore(config *rest.Config) (*hubStore, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up the types of the hub: %w", err)
		}
	}
	parameters := runtime.NewParameterCodec(scheme)
	fleetClient, err := stored.NewHubClient(config, fleetv1alpha1.GroupVersion, scheme)
	if err != nil {
		return nil, err
	}
	clusterClient, err := stored.NewHubClient(config, clusterv1.GroupVersion, scheme)
	if err != nil {
		return nil, err
	}
	return &hubStore{
		connections: stored.NewHubResource[fleetv1alpha1.ClusterConnection](fleetClient, parameters, "clusterconnections", ""),
		clusters: gentype.NewClient("managedclusters", clusterClient, parameters, "",
			func() *clusterv1.ManagedCluster { return &clusterv1.ManagedCluster{} }),
	}, nil
}
