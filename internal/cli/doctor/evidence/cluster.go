// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

const (
	// grantPrefix begins the names of the roles and bindings of clusters.
	grantPrefix = "open-cluster-management:managedcluster:"
	// pageSize is the number of works that one request asks for. One may have half
	// a megabyte.
	pageSize = 100
)

// GatherCluster reads what the hub knows about a cluster.
func GatherCluster(ctx context.Context, settings *rest.Config, name string) (*Cluster, error) {
	c, err := connect(settings)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{Name: name}
	tasks := []func(){
		func() { cluster.Managed = one(ctx, c, &clusterv1.ManagedCluster{ObjectMeta: named("", name)}) },
		func() { cluster.connection(ctx, c) },
		func() { cluster.Namespace = one(ctx, c, &corev1.Namespace{ObjectMeta: named("", name)}) },
		func() {
			cluster.Lease = one(ctx, c, &coordinationv1.Lease{ObjectMeta: named(name, clusterv1.LeaseName)})
		},
		func() { cluster.Works = works(ctx, c, name) },
		func() { cluster.Others = fleet(ctx, c) },
	}
	cluster.Grants = grants(name)
	for i := range cluster.Grants {
		tasks = append(tasks, func() { cluster.Grants[i].find(ctx, c) })
	}
	parallel(tasks...)
	return cluster, nil
}

// connection reads how hub and cluster reach each other.
func (c *Cluster) connection(ctx context.Context, from client.Client) {
	c.Connection = one(ctx, from, &fleetv1alpha1.ClusterConnection{ObjectMeta: named("", c.Name)})
	if !c.Push() {
		return
	}
	key := named(c.Name, fleetv1alpha1.DefaultSecretName)
	if ref := c.Connection.Value.Spec.SecretRef; ref != nil {
		key = named(c.Name, ref.Name)
	}
	c.Credential = one(ctx, from, &corev1.Secret{ObjectMeta: key})
}

// grants are what the agents of a cluster need on the hub.
func grants(cluster string) []Object {
	return []Object{
		{Kind: "ClusterRole", Name: grantPrefix + cluster},
		{Kind: "ClusterRoleBinding", Name: grantPrefix + cluster},
		{Kind: "RoleBinding", Namespace: cluster, Name: grantPrefix + cluster + ":registration"},
		{Kind: "RoleBinding", Namespace: cluster, Name: grantPrefix + cluster + ":work"},
	}
}

func (o *Object) find(ctx context.Context, c client.Client) {
	live := &metav1.PartialObjectMetadata{ObjectMeta: named(o.Namespace, o.Name)}
	live.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(o.Kind))
	reading := one(ctx, c, live)
	o.Reading = Reading[struct{}]{Found: reading.Found, Err: reading.Err}
}

// works reads the works in a namespace, or all, page by page. What was read
// before an error is kept besides it.
func works(ctx context.Context, c client.Client, namespace string) Reading[*workv1.ManifestWorkList] {
	all := &workv1.ManifestWorkList{}
	next := ""
	for {
		page := many(ctx, c, &workv1.ManifestWorkList{}, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
		if !page.Found {
			return Reading[*workv1.ManifestWorkList]{Value: all, Found: len(all.Items) > 0, Err: page.Err}
		}
		all.Items = append(all.Items, page.Value.Items...)
		if next = page.Value.Continue; next == "" {
			return Reading[*workv1.ManifestWorkList]{Value: all, Found: true}
		}
	}
}

// fleet reads who all clusters are.
func fleet(ctx context.Context, c client.Client) Reading[view.Fleet] {
	var clusters Reading[*clusterv1.ManagedClusterList]
	var connected Reading[*fleetv1alpha1.ClusterConnectionList]
	parallel(
		func() { clusters = many(ctx, c, &clusterv1.ManagedClusterList{}) },
		func() { connected = connections(ctx, c) },
	)
	byName := map[string]*fleetv1alpha1.ClusterConnection{}
	if connected.Found {
		for i := range connected.Value.Items {
			byName[connected.Value.Items[i].Name] = &connected.Value.Items[i]
		}
	}
	var all []view.Cluster
	if clusters.Found {
		for i := range clusters.Value.Items {
			mc := &clusters.Value.Items[i]
			all = append(all, view.Of(mc, byName[mc.Name]))
			delete(byName, mc.Name)
		}
	}
	for _, connection := range byName {
		all = append(all, view.Of(nil, connection))
	}
	return Reading[view.Fleet]{Value: view.New(all...), Found: clusters.Found, Err: clusters.Err}
}
