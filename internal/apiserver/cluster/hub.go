// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// connections are the ClusterConnections of the hub.
type connections interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*fleetv1alpha1.ClusterConnection, error)
	List(ctx context.Context, o metav1.ListOptions) (*fleetv1alpha1.ClusterConnectionList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Create(ctx context.Context, c *fleetv1alpha1.ClusterConnection, o metav1.CreateOptions) (*fleetv1alpha1.ClusterConnection, error)
	Update(ctx context.Context, c *fleetv1alpha1.ClusterConnection, o metav1.UpdateOptions) (*fleetv1alpha1.ClusterConnection, error)
	UpdateStatus(ctx context.Context, c *fleetv1alpha1.ClusterConnection, o metav1.UpdateOptions) (*fleetv1alpha1.ClusterConnection, error)
}

// managedClusters are the ManagedClusters of the hub.
type managedClusters interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*clusterv1.ManagedCluster, error)
	Create(ctx context.Context, c *clusterv1.ManagedCluster, o metav1.CreateOptions) (*clusterv1.ManagedCluster, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*clusterv1.ManagedCluster, error)
}

// hub is what the hub stores. Nothing of it is cached.
type hub struct {
	connections connections
	clusters    managedClusters
}

// impatient passes on that the hub asks to come back later: whoever asked decides
// whether to, and nobody waits here in the meantime.
type impatient struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := i.next.RoundTrip(r)
	if err == nil {
		response.Header.Del("Retry-After") // client-go tries again if it is there; it is in the body as well
	}
	return response, err //nolint:wrapcheck // it is that of the request, to which it adds nothing
}

func newHub(config *rest.Config) (*hub, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up the types of the hub: %w", err)
		}
	}
	codecs, parameters := serializer.NewCodecFactory(scheme), runtime.NewParameterCodec(scheme)
	client := func(group runtime.GroupVersioner, with rest.Config) (*rest.RESTClient, error) {
		with.APIPath, with.NegotiatedSerializer = "/apis", codecs.WithoutConversion()
		c, err := rest.RESTClientFor(&with)
		if err != nil {
			return nil, fmt.Errorf("set up the client of %s: %w", group.Identifier(), err)
		}
		return c, nil
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return impatient{next: next} })
	fleet, managed := *rest.CopyConfig(config), *rest.CopyConfig(config)
	fleet.GroupVersion, managed.GroupVersion = &fleetv1alpha1.GroupVersion, &clusterv1.GroupVersion
	fleetClient, err := client(fleetv1alpha1.GroupVersion, fleet)
	if err != nil {
		return nil, err
	}
	clusterClient, err := client(clusterv1.GroupVersion, managed)
	if err != nil {
		return nil, err
	}
	return &hub{
		connections: gentype.NewClientWithList("clusterconnections", fleetClient, parameters, "",
			func() *fleetv1alpha1.ClusterConnection { return &fleetv1alpha1.ClusterConnection{} },
			func() *fleetv1alpha1.ClusterConnectionList { return &fleetv1alpha1.ClusterConnectionList{} }),
		clusters: gentype.NewClient("managedclusters", clusterClient, parameters, "",
			func() *clusterv1.ManagedCluster { return &clusterv1.ManagedCluster{} }),
	}, nil
}
