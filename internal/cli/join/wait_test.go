// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestHowFarAClusterIs(t *testing.T) {
	connected := func(status metav1.ConditionStatus, reason, message string, generation int64) []metav1.Condition {
		return []metav1.Condition{{
			Type: fleetv1alpha1.ClusterConnectionConditionConnected, Status: status, Reason: reason, Message: message, ObservedGeneration: generation,
		}}
	}
	yes := connected(metav1.ConditionTrue, fleetv1alpha1.ClusterConnectionReasonConnected, "", 2)
	is := func(types ...string) (conditions []metav1.Condition) {
		for _, kind := range types {
			conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
		}
		return conditions
	}
	cases := map[string]struct {
		reason     string
		connection []metav1.Condition
		cluster    []metav1.Condition
		done       bool
		says       string
		hopeless   bool
	}{
		"at first": {reason: "the first Push cluster of a hub starts the agent", says: "starting"},
		"an agent that is behind": {
			reason: "what it says is about the address before", connection: connected(metav1.ConditionTrue, "", "", 1), says: "not processed",
		},
		"a member that does not answer": {
			reason: "it may come back", connection: connected(metav1.ConditionFalse, fleetv1alpha1.ClusterConnectionReasonUnreachable, "no answer", 2), says: "no answer",
		},
		"an address that the hub does not dial": {
			reason: "waiting does not mend it", hopeless: true, says: "loopback",
			connection: connected(metav1.ConditionFalse, fleetv1alpha1.ClusterConnectionReasonForbiddenAddress, "a loopback address", 2),
		},
		"a member that has just been reached": {
			reason: "its agent begins", connection: yes, cluster: is(clusterv1.ManagedClusterConditionHubAccepted), says: "no agent has joined",
		},
		"a member that is well": {
			reason: "that is all", connection: yes, done: true,
			cluster: is(clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := progressOf(
				&clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}, Status: clusterv1.ManagedClusterStatus{Conditions: c.cluster}},
				&fleetv1alpha1.ClusterConnection{
					ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: fleetv1alpha1.ClusterConnectionStatus{Conditions: c.connection},
				},
			)
			if got.done != c.done || !strings.Contains(got.message, c.says) || (hopelessNextStep(got.reason) != "") != c.hopeless {
				t.Errorf("%s: got %+v", c.reason, got)
			}
		})
	}
}
