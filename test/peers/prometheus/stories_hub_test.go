// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

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
			name: "two works cannot be applied", alert: "CapstanWorksFailing", series: works + "0x5 2x60\n",
			quiet: 20 * time.Minute, fires: 22 * time.Minute, labels: warning, says: "2 ManifestWorks",
		},
		{
			name: "works fail until their definition is there", alert: "CapstanWorksFailing", series: works + "0x5 2x10 0x60\n", quiet: 40 * time.Minute,
		},
		{
			name: "half of the changes take a minute", alert: "CapstanDeliverySlow",
			series: latency + "\"1.0\"} 0+5x120\n" + latency + "\"30.0\"} 0+5x120\n" + latency + "\"60.0\"} 0+10x120\n" + latency + "\"+Inf\"} 0+10x120\n",
			quiet:  5 * time.Minute, fires: 8 * time.Minute, labels: warning, says: "one change in ten",
		},
		{
			name: "a slow moment is over", alert: "CapstanDeliverySlow",
			series: latency + "\"1.0\"} 0x4 0+10x120\n" + latency + "\"30.0\"} 0x4 0+10x120\n" + latency + "\"60.0\"} 0+50x4 200+10x120\n" + latency + "\"+Inf\"} 0+50x4 200+10x120\n",
			quiet:  20 * time.Minute,
		},
		{
			name: "more is put into a queue than is done", alert: "CapstanQueueGrows",
			series: build1 + "1x120\n" + depth + "0+20x120\n", quiet: 20 * time.Minute, fires: 45 * time.Minute,
			labels: []string{`{component="registration-controller", controller="managedcluster", instance="10.0.0.1:8080", job="capstan", name="managedcluster", namespace="hub", priority="0", severity="warning"}`},
			says:   "queue managedcluster of registration-controller",
		},
		{
			name: "a full queue is worked off", alert: "CapstanQueueGrows",
			series: build1 + "1x120\n" + depth + "2000-10x120\n", quiet: 60 * time.Minute,
		},
		{
			name: "a queue of something else in the cluster", alert: "CapstanQueueGrows",
			series: depth + "0+20x120\n", quiet: 60 * time.Minute,
		},
		{
			name: "the credential of a cluster is refused", alert: "CapstanPushClusterUnreachable", series: pushed + "0x5 1x60\n",
			quiet: 15 * time.Minute, fires: 17 * time.Minute, labels: warning, says: "1 Push clusters",
		},
		{
			name: "a change breaks the first clusters", alert: "CapstanRolloutStopped", series: stopped + "0x5 1x60\n",
			quiet: 10 * time.Minute, fires: 12 * time.Minute, labels: warning, says: "1 rollouts have stopped",
		},
		{
			name: "somebody undoes it at once", alert: "CapstanRolloutStopped", series: stopped + "0x5 1x3 0x60\n", quiet: 40 * time.Minute,
		},
		{
			name: "tenants have filled what they share", alert: "CapstanWorksHeldBack", series: full + "0x5 3x60\n",
			quiet: 30 * time.Minute, fires: 40 * time.Minute, labels: []string{`{namespace="hub", reason="HubFull", severity="warning"}`}, says: "3 namespaces",
		},
		{
			name: "a tenant's replica sets have filled its namespace", alert: "CapstanWorksHeldBack", series: sets + "0x5 1x60\n",
			quiet: 30 * time.Minute, fires: 40 * time.Minute, labels: []string{`{namespace="hub", reason="NamespaceFull", severity="warning"}`}, says: "1 namespaces",
		},
		{
			name: "a tenant writes much and waits", alert: "CapstanWorksHeldBack", series: waiting + "0x5 1x100\n", quiet: 90 * time.Minute,
		},
		{
			name: "a cluster restarts", alert: "CapstanPushClusterUnreachable", series: pushed + "0x5 1x5 0x60\n", quiet: 40 * time.Minute,
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
			name: "a component of the hub has no pod, and something cannot be applied", alert: "CapstanOperatorDegraded",
			series: condition + `type="HubPlacementDegraded",status="True",` + target1 + "} 0x5 1x60\n" +
				condition + `type="HubPlacementDegraded",status="False",` + target1 + "} 1x5 0x60\n" +
				condition + `type="Applied",status="False",` + target1 + "} 0x5 1x60\n",
			quiet: 15 * time.Minute, fires: 17 * time.Minute, says: "1 objects of kind ClusterManager",
			labels: []string{
				`{kind="ClusterManager", namespace="hub", severity="warning", type="HubPlacementDegraded"}`,
				`{kind="ClusterManager", namespace="hub", severity="warning", type="Applied"}`,
			},
		},
		{
			name: "all is well, and something progresses", alert: "CapstanOperatorDegraded",
			series: condition + `type="HubPlacementDegraded",status="False",` + target1 + "} 1x60\n" +
				condition + `type="Applied",status="True",` + target1 + "} 1x60\n" + condition + `type="Progressing",status="True",` + target1 + "} 1x60\n",
			quiet: 40 * time.Minute,
		},
		{
			name: "one replica hangs", alert: "CapstanComponentDown",
			series: build1 + "1x5 stale\n" + build2 + "1x60\n" + `up{` + target1 + "} 1x5 0x60\n" + `up{` + target2 + "} 1x60\n",
			quiet:  10 * time.Minute, fires: 12 * time.Minute, says: "Target 10.0.0.1:8080",
			labels: []string{`{instance="10.0.0.1:8080", job="capstan", namespace="hub", severity="warning"}`},
		},
		{
			name: "a pod is replaced, and something else is down", alert: "CapstanComponentDown",
			series: build1 + "1x5 stale\n" + build2 + "_x6 1x60\n" + `up{` + target1 + "} 1x5 stale\n" + `up{` + target2 + "} _x6 1x60\n" + `up{job="other"} 0x60` + "\n",
			quiet:  40 * time.Minute,
		},
		{
			name: "all replicas are gone", alert: "CapstanComponentAbsent",
			series: build1 + "1x5 stale\n" + build2 + "1x10 stale\n",
			quiet:  20 * time.Minute, fires: 22 * time.Minute, over: 90 * time.Minute, says: "There was a registration-controller in namespace hub",
			labels: []string{`{component="registration-controller", namespace="hub", severity="critical"}`},
		},
		{
			name: "one replica is gone", alert: "CapstanComponentAbsent", series: build1 + "1x5 stale\n" + build2 + "1x60\n", quiet: 40 * time.Minute,
		},
		{
			name: "both replicas wait for each other", alert: "CapstanLeaderMissing",
			series: build1 + "1x60\n" + build2 + "1x60\n" + lead1 + "1x5 0x60\n" + lead2 + "0x60\n",
			quiet:  10 * time.Minute, fires: 12 * time.Minute, says: "leader by Lease registration-controller",
			labels: []string{`{component="registration-controller", name="registration-controller", namespace="hub", severity="critical"}`},
		},
		{
			name: "the other replica takes over", alert: "CapstanLeaderMissing",
			series: build1 + "1x60\n" + build2 + "1x60\n" + lead1 + "1x5 0x60\n" + lead2 + "0x8 1x60\n", quiet: 40 * time.Minute,
		},
		{
			name: "one in four fails", alert: "CapstanReconcileErrors",
			series: build1 + "1x120\n" + done + "0+30x120\n" + failed + "0+10x120\n" + errors + "0+10x120\n",
			quiet:  10 * time.Minute, fires: 13 * time.Minute, labels: ofController, says: "25% of what controller managedcluster of registration-controller",
		},
		{
			name: "a bad moment is over", alert: "CapstanReconcileErrors",
			series: build1 + "1x120\n" + done + "0x7 0+30x120\n" + failed + "0+10x7 70x120\n" + errors + "0+10x7 70x120\n", quiet: 25 * time.Minute,
		},
		{
			name: "two controllers undo what the other writes", alert: "CapstanSelfConflict",
			series: build1 + "1x60\n" + conflicts + "0x5 1x60\n",
			quiet:  10 * time.Minute, fires: 12 * time.Minute, says: "registration-controller has written 1 objects",
			labels: []string{`{component="registration-controller", instance="10.0.0.1:8080", job="capstan", namespace="hub", severity="warning"}`},
		},
		{
			name: "many clusters report at the same time", alert: "CapstanSelfConflict",
			series: build1 + "1x60\n" + conflicts + "0x5 2x3 0x60\n", quiet: 40 * time.Minute,
		},
	}
}
