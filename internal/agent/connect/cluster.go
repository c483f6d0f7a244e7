// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/agent/nodes"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// HubCluster returns the hub as the agent of one member may see it: its own
// ManagedCluster and its own namespace. Leases are read from the server;
// anything else is cached when it is first asked for. ManifestWorks are
// compressed in the cache: the store of compressed.NewWorkStore reads them there, while clients ask
// the server.
func HubCluster(config *rest.Config, member string) (cluster.Cluster, error) {
	scheme, err := HubScheme()
	if err != nil {
		return nil, err
	}
	c, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = scheme
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return HubMapper(), nil }
		o.NewCache = compressed.NewWorkCache
		o.Cache = cache.Options{
			DefaultNamespaces: map[string]cache.Config{member: {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&clusterv1.ManagedCluster{}: {Field: fields.OneTermEqualSelector("metadata.name", member)},
			},
		}
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&coordinationv1.Lease{}, &workv1.ManifestWork{}}}
	})
	if err != nil {
		return nil, fmt.Errorf("making clients for the hub %s: %w", config.Host, err)
	}
	return c, nil
}

// MemberCluster returns the member. Secrets, ConfigMaps and Namespaces are read
// from the server; anything else is cached when it is first asked for.
// AppliedManifestWorks are compressed in the cache: the store of compressed.NewRecordStore reads them
// there, while clients ask the server.
func MemberCluster(config *rest.Config) (cluster.Cluster, error) {
	scheme, err := MemberScheme()
	if err != nil {
		return nil, err
	}
	c, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = scheme
		o.MapperProvider = MemberMapper
		o.NewCache = compressed.NewRecordCache
		o.Cache = cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}:                   {Transform: slimNode},
				&clusterv1alpha1.ClusterClaim{}:  {Transform: slimFact},
				&aboutv1alpha1.ClusterProperty{}: {Transform: slimFact},
			},
		}
		o.Client.Cache = &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Namespace{}, &workv1.AppliedManifestWork{}},
		}
	})
	if err != nil {
		return nil, fmt.Errorf("making clients for the member %s: %w", config.Host, err)
	}
	return c, nil
}

// HomeClient returns a client without a cache for the agent's own secrets.
func HomeClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := MemberScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: HomeMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for the agent's own namespace at %s: %w", config.Host, err)
	}
	return c, nil
}

// HubClient returns a client without a cache for the hub.
func HubClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := HubScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: HubMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub %s: %w", config.Host, err)
	}
	return c, nil
}

// slimNode is a transform of caches.
func slimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		return nodes.SlimNode(node), nil
	}
	return obj, nil
}

// factBytesMax is more than the 1,024 characters have that a claim may have, whatever they are.
const factBytesMax = 4*1024 + 1

// slimFact is a transform of caches for what a member says of itself. Of the metadata of a
// ClusterClaim or ClusterProperty nobody reads more than the name and one label: the member may
// give each any number of others. A value that is too long to be told is still too long when it is cut.
func slimFact(obj any) (any, error) {
	switch fact := obj.(type) {
	case *clusterv1alpha1.ClusterClaim:
		return &clusterv1alpha1.ClusterClaim{ObjectMeta: slimFactMeta(&fact.ObjectMeta), Spec: clusterv1alpha1.ClusterClaimSpec{Value: watch.TruncateText(fact.Spec.Value, factBytesMax)}}, nil
	case *aboutv1alpha1.ClusterProperty:
		return &aboutv1alpha1.ClusterProperty{ObjectMeta: slimFactMeta(&fact.ObjectMeta), Spec: aboutv1alpha1.ClusterPropertySpec{Value: watch.TruncateText(fact.Spec.Value, factBytesMax)}}, nil
	}
	return obj, nil
}

func slimFactMeta(whole *metav1.ObjectMeta) metav1.ObjectMeta {
	slim := metav1.ObjectMeta{Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion}
	if value, ok := whole.Labels[clusterv1.LabelSpokeOnly]; ok {
		metav1.SetMetaDataLabel(&slim, clusterv1.LabelSpokeOnly, value)
	}
	return slim
}
