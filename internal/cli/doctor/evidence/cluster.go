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
func GatherCluster(ctx context.Context, settings *rest.Config, name string) (*ClusterEvidence, error) {
	c, err := newEvidenceClient(settings)
	if err != nil {
		return nil, err
	}
	cluster := &ClusterEvidence{Name: name}
	tasks := []func(){
		func() {
			cluster.Managed = readObject(ctx, c, &clusterv1.ManagedCluster{ObjectMeta: objectMetaFor("", name)})
		},
		func() { cluster.readConnection(ctx, c) },
		func() { cluster.Namespace = readObject(ctx, c, &corev1.Namespace{ObjectMeta: objectMetaFor("", name)}) },
		func() {
			cluster.Lease = readObject(ctx, c, &coordinationv1.Lease{ObjectMeta: objectMetaFor(name, clusterv1.LeaseName)})
		},
		func() { cluster.Works = listWorks(ctx, c, name) },
		func() { cluster.Others = readFleet(ctx, c) },
	}
	cluster.Grants = clusterGrants(name)
	for i := range cluster.Grants {
		tasks = append(tasks, func() { cluster.Grants[i].readPresence(ctx, c) })
	}
	runParallel(tasks...)
	return cluster, nil
}

// readConnection reads how hub and cluster reach each other.
func (c *ClusterEvidence) readConnection(ctx context.Context, from client.Client) {
	c.Connection = readObject(ctx, from, &fleetv1alpha1.ClusterConnection{ObjectMeta: objectMetaFor("", c.Name)})
	if !c.UsesPushMode() {
		return
	}
	key := objectMetaFor(c.Name, fleetv1alpha1.DefaultSecretName)
	if ref := c.Connection.Value.Spec.SecretRef; ref != nil {
		key = objectMetaFor(c.Name, ref.Name)
	}
	c.Credential = readObject(ctx, from, &corev1.Secret{ObjectMeta: key})
}

// clusterGrants are what the agents of a cluster need on the hub.
func clusterGrants(cluster string) []ObjectPresence {
	return []ObjectPresence{
		{Kind: "ClusterRole", Name: grantPrefix + cluster},
		{Kind: "ClusterRoleBinding", Name: grantPrefix + cluster},
		{Kind: "RoleBinding", Namespace: cluster, Name: grantPrefix + cluster + ":registration"},
		{Kind: "RoleBinding", Namespace: cluster, Name: grantPrefix + cluster + ":work"},
	}
}

func (o *ObjectPresence) readPresence(ctx context.Context, c client.Client) {
	live := &metav1.PartialObjectMetadata{ObjectMeta: objectMetaFor(o.Namespace, o.Name)}
	live.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(o.Kind))
	reading := readObject(ctx, c, live)
	o.Reading = Reading[struct{}]{Found: reading.Found, Err: reading.Err}
}

// listWorks reads the works in a namespace, or all, page by page. What was read
// before an error is kept besides it.
func listWorks(ctx context.Context, c client.Client, namespace string) Reading[*workv1.ManifestWorkList] {
	all := &workv1.ManifestWorkList{}
	next := ""
	for {
		page := readList(ctx, c, &workv1.ManifestWorkList{}, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
		if !page.Found {
			return Reading[*workv1.ManifestWorkList]{Value: all, Found: len(all.Items) > 0, Err: page.Err}
		}
		all.Items = append(all.Items, page.Value.Items...)
		if next = page.Value.Continue; next == "" {
			return Reading[*workv1.ManifestWorkList]{Value: all, Found: true}
		}
	}
}

// readFleet reads who all clusters are.
func readFleet(ctx context.Context, c client.Client) Reading[view.Fleet] {
	var clusters Reading[*clusterv1.ManagedClusterList]
	var connected Reading[*fleetv1alpha1.ClusterConnectionList]
	runParallel(
		func() { clusters = readList(ctx, c, &clusterv1.ManagedClusterList{}) },
		func() { connected = listConnections(ctx, c) },
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
			all = append(all, view.FromCluster(mc, byName[mc.Name]))
			delete(byName, mc.Name)
		}
	}
	for _, connection := range byName {
		all = append(all, view.FromCluster(nil, connection))
	}
	return Reading[view.Fleet]{Value: view.NewFleet(all...), Found: clusters.Found, Err: clusters.Err}
}
