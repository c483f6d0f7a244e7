// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"net/url"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// endpointLengthMax is how long the URL of an API server can be, in bytes.
const endpointLengthMax = 2048

// endpointMoved reports whether a Cluster shows another address of its API server: the one
// that its agent reports is shown if nobody wrote one.
func endpointMoved(connection *fleetv1alpha1.ClusterConnection, was, is *fleetv1alpha1.ClusterProjection) bool {
	return connection.Spec.APIEndpoint == "" && was.APIEndpoint != is.APIEndpoint
}

// reportedEndpoint returns the first of the URLs that an agent reports which a
// Cluster may show. Others are left out: with one of them the Cluster would be
// invalid, and nobody could write to it.
func reportedEndpoint(mc *clusterv1.ManagedCluster) string {
	for _, config := range mc.Spec.ManagedClusterClientConfigs {
		if isUsableEndpoint(config.URL) {
			return config.URL
		}
	}
	return ""
}

func isUsableEndpoint(endpoint string) bool {
	parsed, err := url.Parse(endpoint)
	return err == nil && len(endpoint) <= endpointLengthMax && parsed.Scheme == "https" && parsed.Hostname() != "" &&
		parsed.User == nil && parsed.RawQuery == "" && parsed.Fragment == ""
}
