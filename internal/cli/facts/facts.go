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
)

// Claims and labels that tell where a cluster is.
const (
	claimRegion = "region.open-cluster-management.io"
	claimZone   = "zone.open-cluster-management.io"
	labelRegion = "topology.kubernetes.io/region"
	labelZone   = "topology.kubernetes.io/zone"
)

// ModePull is the mode of a cluster whose agent runs on it and calls the hub.
const ModePull = "Pull"

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
}

// Of returns what is known about the cluster.
func Of(cluster *clusterv1.ManagedCluster) Facts {
	claims := map[string]string{}
	for _, claim := range cluster.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	var endpoints []string
	for _, config := range cluster.Spec.ManagedClusterClientConfigs {
		endpoints = append(endpoints, config.URL)
	}
	return Facts{
		Version:  cmp.Or(cluster.Status.Version.Kubernetes, claims[clusterv1alpha1.ClaimKubeVersion]),
		Mode:     ModePull,
		Zones:    cmp.Or(claims[claimZone], cluster.Labels[labelZone]),
		Region:   cmp.Or(claims[claimRegion], cluster.Labels[labelRegion]),
		Provider: claims[clusterv1alpha1.ClaimPlatform],
		Endpoint: strings.Join(endpoints, ","),
	}
}
