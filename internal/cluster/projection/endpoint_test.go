// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func reporting(urls ...string) func(*clusterv1.ManagedCluster) {
	return func(mc *clusterv1.ManagedCluster) {
		mc.Spec.ManagedClusterClientConfigs = nil
		for _, url := range urls {
			mc.Spec.ManagedClusterClientConfigs = append(mc.Spec.ManagedClusterClientConfigs, clusterv1.ClientConfig{URL: url})
		}
	}
}

func TestTheAddressIsTheFirstThatIsUsable(t *testing.T) {
	const good = "https://member.example.com:6443/path"
	for reason, bad := range map[string]string{
		"nothing":     "",
		"no URL":      "https://%",
		"no TLS":      "http://member.example.com",
		"no host":     "https:///path",
		"credentials": "https://me:secret@member.example.com",
		"a query":     "https://member.example.com?x=y",
		"a fragment":  "https://member.example.com#x",
		"too long":    "https://member.example.com/" + strings.Repeat("x", endpointLengthMax),
	} {
		t.Run(reason, func(t *testing.T) {
			if got := reportedEndpoint(member(reporting(bad))); got != "" {
				t.Errorf("%q is shown: nobody could write to that Cluster", got)
			}
			if got := reportedEndpoint(member(reporting(bad, good, "https://another.example.com"))); got != good {
				t.Errorf("got %q, want %q", got, good)
			}
		})
	}
}

func TestAnAddressThatSomebodyWroteIsNotMovedByAnAgent(t *testing.T) {
	connection := mirrored(func(c *fleetv1alpha1.ClusterConnection) { c.Spec.APIEndpoint = "https://written.example.com" })
	generation := connection.Cluster.Generation
	RefreshMirror(connection, member(reporting("https://reported.example.com")))
	if connection.Spec.APIEndpoint != "https://written.example.com" || connection.Cluster.Generation != generation {
		t.Errorf("the address is %q in generation %d, want the written one in generation %d",
			connection.Spec.APIEndpoint, connection.Cluster.Generation, generation)
	}
	if connection.Cluster.APIEndpoint != "https://reported.example.com" {
		t.Errorf("the reported address is %q", connection.Cluster.APIEndpoint)
	}
}
