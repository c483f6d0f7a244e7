// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stories has the stories of the alerts: what is measured over time, and when an alert
// may fire, must fire and ends.
package stories

import "time"

func deliveryStories() []story {
	const (
		works   = `capstan_works{state="failed",` + target1 + `} `
		pushed  = `capstan_push_connections{state="failed",` + target1 + `} `
		stopped = `capstan_propagation_rollouts{phase="TooManyFailures",` + target1 + `} `
		full    = `capstan_propagation_limited_namespaces{reason="HubFull",` + target1 + `} `
		waiting = `capstan_work_limited_namespaces{reason="NamespaceThrottled",` + target1 + `} `
		sets    = `capstan_work_limited_namespaces{reason="NamespaceFull",` + target1 + `} `
		latency = `capstan_work_apply_latency_seconds_bucket{` + target1 + `,le=`
		depth   = `workqueue_depth{name="managedcluster",controller="managedcluster",priority="0",` + target1 + `} `
	)
	warning := []string{`{namespace="hub", severity="warning"}`}
	return []story{
		{
			Name: "two works cannot be applied", Alert: "CapstanWorksFailing", series: works + "0x5 2x60\n",
			quiet: 20 * time.Minute, Fires: 22 * time.Minute, labels: warning, says: "2 ManifestWorks",
		},
		{
			Name: "works fail until their definition is there", Alert: "CapstanWorksFailing", series: works + "0x5 2x10 0x60\n", quiet: 40 * time.Minute,
		},
		{
			Name: "half of the changes take a minute", Alert: "CapstanDeliverySlow",
			series: latency + "\"1.0\"} 0+5x120\n" + latency + "\"30.0\"} 0+5x120\n" + latency + "\"60.0\"} 0+10x120\n" + latency + "\"+Inf\"} 0+10x120\n",
			quiet:  5 * time.Minute, Fires: 8 * time.Minute, labels: warning, says: "one change in ten",
		},
		{
			Name: "a slow moment is over", Alert: "CapstanDeliverySlow",
			series: latency + "\"1.0\"} 0x4 0+10x120\n" + latency + "\"30.0\"} 0x4 0+10x120\n" + latency + "\"60.0\"} 0+50x4 200+10x120\n" + latency + "\"+Inf\"} 0+50x4 200+10x120\n",
			quiet:  20 * time.Minute,
		},
		{
			Name: "more is put into a queue than is done", Alert: "CapstanQueueGrows",
			series: build1 + "1x120\n" + depth + "0+20x120\n", quiet: 20 * time.Minute, Fires: 45 * time.Minute,
			labels: []string{`{component="registration-controller", controller="managedcluster", instance="10.0.0.1:8080", job="capstan", name="managedcluster", namespace="hub", priority="0", severity="warning"}`},
			says:   "queue managedcluster of registration-controller",
		},
		{
			Name: "a full queue is worked off", Alert: "CapstanQueueGrows",
			series: build1 + "1x120\n" + depth + "2000-10x120\n", quiet: 60 * time.Minute,
		},
		{
			Name: "a queue of something else in the cluster", Alert: "CapstanQueueGrows",
			series: depth + "0+20x120\n", quiet: 60 * time.Minute,
		},
		{
			Name: "the credential of a cluster is refused", Alert: "CapstanPushClusterUnreachable", series: pushed + "0x5 1x60\n",
			quiet: 15 * time.Minute, Fires: 17 * time.Minute, labels: warning, says: "1 Push clusters",
		},
		{
			Name: "a change breaks the first clusters", Alert: "CapstanRolloutStopped", series: stopped + "0x5 1x60\n",
			quiet: 10 * time.Minute, Fires: 12 * time.Minute, labels: warning, says: "1 rollouts have stopped",
		},
		{
			Name: "somebody undoes it at once", Alert: "CapstanRolloutStopped", series: stopped + "0x5 1x3 0x60\n", quiet: 40 * time.Minute,
		},
		{
			Name: "tenants have filled what they share", Alert: "CapstanWorksHeldBack", series: full + "0x5 3x60\n",
			quiet: 30 * time.Minute, Fires: 40 * time.Minute, labels: []string{`{namespace="hub", reason="HubFull", severity="warning"}`}, says: "3 namespaces",
		},
		{
			Name: "a tenant's replica sets have filled its namespace", Alert: "CapstanWorksHeldBack", series: sets + "0x5 1x60\n",
			quiet: 30 * time.Minute, Fires: 40 * time.Minute, labels: []string{`{namespace="hub", reason="NamespaceFull", severity="warning"}`}, says: "1 namespaces",
		},
		{
			Name: "a tenant writes much and waits", Alert: "CapstanWorksHeldBack", series: waiting + "0x5 1x100\n", quiet: 90 * time.Minute,
		},
		{
			Name: "a cluster restarts", Alert: "CapstanPushClusterUnreachable", series: pushed + "0x5 1x5 0x60\n", quiet: 40 * time.Minute,
		},
	}
}

func componentStories() []story {
	const (
		condition = `capstan_operator_condition{kind="ClusterManager",`
		lead1     = `leader_election_master_status{name="registration-controller",` + target1 + `} `
		lead2     = `leader_election_master_status{name="registration-controller",` + target2 + `} `
		done      = `controller_runtime_reconcile_total{controller="managedcluster",result="success",` + target1 + `} `
		failed    = `controller_runtime_reconcile_total{controller="managedcluster",result="error",` + target1 + `} `
		conflicts = `capstan_self_conflicts{` + target1 + `} `
		errors    = `controller_runtime_reconcile_errors_total{controller="managedcluster",` + target1 + `} `
	)
	ofController := []string{`{component="registration-controller", controller="managedcluster", namespace="hub", severity="warning"}`}
	return []story{
		{
			Name: "a component of the hub has no pod, and something cannot be applied", Alert: "CapstanOperatorDegraded",
			series: condition + `type="HubPlacementDegraded",status="True",` + target1 + "} 0x5 1x60\n" +
				condition + `type="HubPlacementDegraded",status="False",` + target1 + "} 1x5 0x60\n" +
				condition + `type="Applied",status="False",` + target1 + "} 0x5 1x60\n",
			quiet: 15 * time.Minute, Fires: 17 * time.Minute, says: "1 objects of kind ClusterManager",
			labels: []string{
				`{kind="ClusterManager", namespace="hub", severity="warning", type="HubPlacementDegraded"}`,
				`{kind="ClusterManager", namespace="hub", severity="warning", type="Applied"}`,
			},
		},
		{
			Name: "all is well, and something progresses", Alert: "CapstanOperatorDegraded",
			series: condition + `type="HubPlacementDegraded",status="False",` + target1 + "} 1x60\n" +
				condition + `type="Applied",status="True",` + target1 + "} 1x60\n" + condition + `type="Progressing",status="True",` + target1 + "} 1x60\n",
			quiet: 40 * time.Minute,
		},
		{
			Name: "one replica hangs", Alert: "CapstanComponentDown",
			series: build1 + "1x5 stale\n" + build2 + "1x60\n" + `up{` + target1 + "} 1x5 0x60\n" + `up{` + target2 + "} 1x60\n",
			quiet:  10 * time.Minute, Fires: 12 * time.Minute, says: "Target 10.0.0.1:8080",
			labels: []string{`{instance="10.0.0.1:8080", job="capstan", namespace="hub", severity="warning"}`},
		},
		{
			Name: "a pod is replaced, and something else is down", Alert: "CapstanComponentDown",
			series: build1 + "1x5 stale\n" + build2 + "_x6 1x60\n" + `up{` + target1 + "} 1x5 stale\n" + `up{` + target2 + "} _x6 1x60\n" + `up{job="other"} 0x60` + "\n",
			quiet:  40 * time.Minute,
		},
		{
			Name: "all replicas are gone", Alert: "CapstanComponentAbsent",
			series: build1 + "1x5 stale\n" + build2 + "1x10 stale\n",
			quiet:  20 * time.Minute, Fires: 22 * time.Minute, over: 90 * time.Minute, says: "There was a registration-controller in namespace hub",
			labels: []string{`{component="registration-controller", namespace="hub", severity="critical"}`},
		},
		{
			Name: "one replica is gone", Alert: "CapstanComponentAbsent", series: build1 + "1x5 stale\n" + build2 + "1x60\n", quiet: 40 * time.Minute,
		},
		{
			Name: "both replicas wait for each other", Alert: "CapstanLeaderMissing",
			series: build1 + "1x60\n" + build2 + "1x60\n" + lead1 + "1x5 0x60\n" + lead2 + "0x60\n",
			quiet:  10 * time.Minute, Fires: 12 * time.Minute, says: "leader by Lease registration-controller",
			labels: []string{`{component="registration-controller", name="registration-controller", namespace="hub", severity="critical"}`},
		},
		{
			Name: "the other replica takes over", Alert: "CapstanLeaderMissing",
			series: build1 + "1x60\n" + build2 + "1x60\n" + lead1 + "1x5 0x60\n" + lead2 + "0x8 1x60\n", quiet: 40 * time.Minute,
		},
		{
			Name: "one in four fails", Alert: "CapstanReconcileErrors",
			series: build1 + "1x120\n" + done + "0+30x120\n" + failed + "0+10x120\n" + errors + "0+10x120\n",
			quiet:  10 * time.Minute, Fires: 13 * time.Minute, labels: ofController, says: "25% of what controller managedcluster of registration-controller",
		},
		{
			Name: "a bad moment is over", Alert: "CapstanReconcileErrors",
			series: build1 + "1x120\n" + done + "0x7 0+30x120\n" + failed + "0+10x7 70x120\n" + errors + "0+10x7 70x120\n", quiet: 25 * time.Minute,
		},
		{
			Name: "two controllers undo what the other writes", Alert: "CapstanSelfConflict",
			series: build1 + "1x60\n" + conflicts + "0x5 1x60\n",
			quiet:  10 * time.Minute, Fires: 12 * time.Minute, says: "registration-controller has written 1 objects",
			labels: []string{`{component="registration-controller", instance="10.0.0.1:8080", job="capstan", namespace="hub", severity="warning"}`},
		},
		{
			Name: "many clusters report at the same time", Alert: "CapstanSelfConflict",
			series: build1 + "1x60\n" + conflicts + "0x5 2x3 0x60\n", quiet: 40 * time.Minute,
		},
	}
}
