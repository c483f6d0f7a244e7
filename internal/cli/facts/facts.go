// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package facts gathers what is known about a cluster, wherever it stands.
//
// It reads only what it is given: it has no client and no clock.
package facts

import (
	"cmp"
	"strings"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// Claims and labels that tell where a cluster is.
const (
	claimRegion = "region.open-cluster-management.io"
	claimZone   = "zone.open-cluster-management.io"
	labelRegion = "topology.kubernetes.io/region"
	labelZone   = "topology.kubernetes.io/zone"
)

// Facts is what is known about a cluster. What is not known is empty.
type Facts struct {
	// Version is that of Kubernetes.
	Version string
	// Mode tells who opens connections: Pull or Push.
	Mode string
	// Zones, Region and Provider tell where the cluster is. There may be several
	// zones, with commas between them.
	Zones, Region, Provider string
	// Endpoint has the addresses of its API server, with commas between them.
	Endpoint string
	// Identity is the UID of its namespace kube-system, as the hub holds it, or else
	// as its agent tells it.
	Identity string
	// Nodes counts its nodes, nil if nobody has.
	Nodes *fleetv1alpha1.NodeSummary
	// GroupVersions and Resources are how many of each it serves; both are 0 if
	// nobody has looked.
	GroupVersions, Resources int
}

// Of returns what is known about the cluster. What its ClusterConnection says,
// if it has one, comes before what it tells of itself. A cluster without a
// ClusterConnection is one that calls the hub.
func Of(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) Facts {
	if connection == nil {
		connection = &fleetv1alpha1.ClusterConnection{}
	}
	claims := map[string]string{}
	for _, claim := range cluster.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	var endpoints []string
	for _, config := range cluster.Spec.ManagedClusterClientConfigs {
		endpoints = append(endpoints, config.URL)
	}
	resources := 0
	for _, served := range connection.Status.APIEnablements {
		resources += len(served.Resources)
	}
	return Facts{
		Version:  cmp.Or(cluster.Status.Version.Kubernetes, connection.Status.KubernetesVersion, claims[clusterv1alpha1.ClaimKubeVersion]),
		Mode:     string(cmp.Or(connection.Spec.SyncMode, fleetv1alpha1.SyncModePull)),
		Zones:    cmp.Or(strings.Join(connection.Spec.Zones, ","), claims[claimZone], cluster.Labels[labelZone]),
		Region:   cmp.Or(connection.Spec.Region, claims[claimRegion], cluster.Labels[labelRegion]),
		Provider: cmp.Or(connection.Spec.Provider, claims[clusterv1alpha1.ClaimPlatform]),
		Endpoint: cmp.Or(connection.Spec.APIEndpoint, strings.Join(endpoints, ",")),
		Identity: cmp.Or(connection.Identity(), connection.Status.ID, cluster.Annotations[clusterv1.AnnotationClusterUID]),
		Nodes:    connection.Status.NodeSummary, GroupVersions: len(connection.Status.APIEnablements), Resources: resources,
	}
}

// Identity returns who a cluster is: the UID of its namespace kube-system, as its
// agent told it. It is empty if that is not known. Either may be nil.
func Identity(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) string {
	if connection != nil && connection.Status.ID != "" {
		return connection.Status.ID
	}
	if cluster == nil {
		return ""
	}
	if id := cluster.Annotations[clusterv1.AnnotationClusterUID]; id != "" {
		return id
	}
	for _, claim := range cluster.Status.ClusterClaims {
		if claim.Name == clusterv1alpha1.ClaimID {
			return claim.Value
		}
	}
	return ""
}
