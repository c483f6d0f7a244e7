// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"time"
)

// Series of a process, which has the labels of its target.
const (
	target1 = `namespace="hub",job="capstan",instance="10.0.0.1:8080"`
	target2 = `namespace="hub",job="capstan",instance="10.0.0.2:8080"`
	build1  = `capstan_build_info{` + target1 + `,component="registration-controller",version="0.1.0"} `
	build2  = `capstan_build_info{` + target2 + `,component="registration-controller",version="0.1.0"} `
)

// AllStories are the stories of all alerts.
func AllStories() []story {
	return slices.Concat(clusterStories(), certificateStories(), deliveryStories(), componentStories())
}

// clusters are series of a hub with two replicas of its controller, of which one
// has not counted its clusters.
func clusters(joined, unreachable, unavailable string) string {
	series := ""
	for state, values := range map[string]string{"joined": joined, "unreachable": unreachable, "unavailable": unavailable} {
		series += `capstan_managed_clusters{state="` + state + `",` + target1 + `} ` + values + "\n" +
			`capstan_managed_clusters{state="` + state + `",` + target2 + `} 0x60` + "\n"
	}
	return series
}

func clusterStories() []story {
	warning := []string{`{namespace="hub", severity="warning"}`}
	late := func(under120 string) string {
		return `capstan_cluster_heartbeat_age_seconds_bucket{le="120.0",` + target1 + `} ` + under120 + `
capstan_cluster_heartbeat_age_seconds_bucket{le="300.0",` + target1 + `} 10x60
capstan_cluster_heartbeat_age_seconds_bucket{le="+Inf",` + target1 + `} 10x60
capstan_cluster_heartbeat_age_seconds_count{` + target1 + `} 10x60
`
	}
	return []story{
		{
			Name: "one cluster of ten falls silent and comes back", Alert: "CapstanClusterUnreachable",
			series: clusters("10x60", "0x5 1x20 0x40", "0x60"),
			quiet:  10 * time.Minute, Fires: 12 * time.Minute, over: 40 * time.Minute, labels: warning, says: "1 clusters have joined",
		},
		{
			Name: "a cluster that is unhealthy is heard of", Alert: "CapstanClusterUnreachable",
			series: clusters("10x60", "0x60", "1x60"), quiet: 30 * time.Minute,
		},
		{
			Name: "half of the clusters fall silent", Alert: "CapstanManyClustersUnreachable",
			series: clusters("10x60", "0x5 5x60", "0x60"),
			quiet:  10 * time.Minute, Fires: 12 * time.Minute, labels: []string{`{namespace="hub", severity="critical"}`}, says: "50%",
		},
		{
			Name: "the only cluster falls silent", Alert: "CapstanManyClustersUnreachable",
			series: clusters("1x60", "1x60", "0x60"), quiet: 30 * time.Minute,
		},
		{
			Name: "two clusters of ten have late heartbeats", Alert: "CapstanHeartbeatsLate",
			series: late("10x5 8x20 10x40"),
			quiet:  14 * time.Minute, Fires: 17 * time.Minute, over: 30 * time.Minute, labels: warning, says: "20%",
		},
		{
			Name: "one cluster of ten has a late heartbeat", Alert: "CapstanHeartbeatsLate",
			series: late("9x60"), quiet: 40 * time.Minute,
		},
		{
			Name: "an agent reports that its API server is not healthy", Alert: "CapstanClusterUnavailable",
			series: clusters("10x60", "0x60", "0x5 1x50"),
			quiet:  20 * time.Minute, Fires: 22 * time.Minute, labels: warning, says: "1 clusters",
		},
		{
			Name: "an API server is restarted", Alert: "CapstanClusterUnavailable",
			series: clusters("10x60", "0x60", "0x5 1x9 0x40"), quiet: 30 * time.Minute,
		},
	}
}

func certificateStories() []story {
	const (
		day   = 24 * time.Hour
		agent = `capstan_certificate_expiry_timestamp_seconds{certificate="agent",namespace="agents",job="capstan",instance="10.0.0.3:8080"} `
		// A pod that was replaced does not make a certificate a new one.
		moved = `capstan_certificate_expiry_timestamp_seconds{certificate="agent",namespace="agents",job="capstan",instance="10.0.0.4:8080"} `
		asked = `capstan_certificate_request_decisions_total{verdict="Refuse",kind="Bootstrap",` + target1 + `} `
	)
	return []story{
		{
			Name: "one of 30 days has a day left, and its agent was restarted", Alert: "CapstanCertificateNotRenewed",
			series: agent + "518400x5750\n" + moved + "_x5751 518400x2000\n", // expires after six days
			quiet:  5*day - time.Hour, Fires: 5*day + 15*time.Minute,
			labels: []string{`{certificate="agent", namespace="agents", severity="warning"}`}, says: "Certificate agent expires in 23h",
		},
		{
			Name: "one of six hours has less than one left", Alert: "CapstanCertificateNotRenewed",
			series: agent + "21600x360\n",
			quiet:  5 * time.Hour, Fires: 5*time.Hour + 15*time.Minute,
			labels: []string{`{certificate="agent", namespace="agents", severity="warning"}`}, says: "Certificate agent expires in 4",
		},
		{
			Name: "one of a day is renewed in time", Alert: "CapstanCertificateNotRenewed",
			series: agent + "86400x1150 155000x1000\n", quiet: 33 * time.Hour,
		},
		{
			Name: "nobody renews one of an hour", Alert: "CapstanCertificateExpired",
			series: agent + "3600x100\n", quiet: 59 * time.Minute, Fires: 62 * time.Minute,
			labels: []string{`{certificate="agent", namespace="agents", severity="critical"}`}, says: "Certificate agent has expired",
		},
		{
			Name: "one is renewed at the last moment", Alert: "CapstanCertificateExpired",
			series: agent + "3600x58 7200x60\n", quiet: 90 * time.Minute,
		},
		{
			Name: "somebody asks for the identity of another", Alert: "CapstanCertificateRequestsRefused",
			series: asked + "0x5 1x60\n", quiet: 4 * time.Minute, Fires: 8 * time.Minute, over: 50 * time.Minute,
			labels: []string{`{kind="Bootstrap", namespace="hub", severity="warning"}`}, says: "of kind Bootstrap were refused",
		},
		{
			Name: "what was refused long ago", Alert: "CapstanCertificateRequestsRefused",
			series: asked + "7x60\n", quiet: 40 * time.Minute,
		},
	}
}
