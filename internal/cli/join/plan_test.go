// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

const (
	ours   = "11111111-1111-1111-1111-111111111111"
	theirs = "22222222-2222-2222-2222-222222222222"
)

func TestWhoMayHaveAName(t *testing.T) {
	cluster := func(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
		if change != nil {
			change(mc)
		}
		return mc
	}
	isOf := func(id string) func(*clusterv1.ManagedCluster) {
		return func(mc *clusterv1.ManagedCluster) {
			mc.Annotations = map[string]string{clusterv1.AnnotationClusterUID: id}
		}
	}
	hasJoined := func(mc *clusterv1.ManagedCluster) {
		mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue}}
	}
	push := func(id string) *fleetv1alpha1.ClusterConnection {
		return &fleetv1alpha1.ClusterConnection{
			Spec:   fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush},
			Status: fleetv1alpha1.ClusterConnectionStatus{ID: id},
		}
	}
	now := metav1.Now()
	type clusters map[string]*clusterv1.ManagedCluster
	type connections map[string]*fleetv1alpha1.ClusterConnection
	cases := map[string]struct {
		reason      string
		clusters    clusters
		connections connections
		refused     []string
		wasPull     bool
		there       bool
		// asRegistered is what the user says.
		asRegistered bool
	}{
		"a new cluster": {reason: "both are free", clusters: clusters{"other": cluster(isOf(theirs))}},
		"a Push cluster under another name": {
			reason: "one cluster has one name", connections: connections{"other": push(ours)},
			refused: []string{"the cluster ID " + ours + " or the cluster name member1 has been registered", `under the name "other"`, "capstan unjoin other"},
		},
		"a Pull cluster under another name": {
			reason: "in any mode", clusters: clusters{"other": cluster(isOf(ours))}, refused: []string{`under the name "other"`, "capstan unregister other"},
		},
		"a cluster under another name that tells by a claim": {
			reason: "agents of others tell in this way",
			clusters: clusters{"other": cluster(func(mc *clusterv1.ManagedCluster) {
				mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: ours}}
			})},
			refused: []string{`under the name "other"`},
		},
		"a name that another cluster has": {
			reason: "it would get that one's works", clusters: clusters{"member1": cluster(isOf(theirs))}, connections: connections{"member1": push(theirs)},
			refused: []string{"has been registered", `"member1" is another cluster, ` + theirs, "capstan unjoin member1"},
		},
		"the cluster itself": {
			reason: "a join that was interrupted goes on", clusters: clusters{"member1": cluster(isOf(ours))}, connections: connections{"member1": push(ours)}, there: true,
		},
		"a join that had only begun": {
			reason: "the connection is written first", connections: connections{"member1": push("")},
		},
		"the cluster with an agent of its own": {
			reason: "it changes from Pull to Push", there: true, wasPull: true,
			clusters: clusters{"member1": cluster(func(mc *clusterv1.ManagedCluster) { isOf(ours)(mc); hasJoined(mc) })},
		},
		"a Pull cluster that does not tell who it is": {
			reason: "it may be any", clusters: clusters{"member1": cluster(hasJoined)}, refused: []string{"does not report which cluster it is", "capstan unregister member1"},
		},
		"a name that only asks to join": {
			reason: "whoever may ask has chosen its labels", clusters: clusters{"member1": cluster(func(mc *clusterv1.ManagedCluster) {
				mc.Spec.HubAcceptsClient, mc.Labels = false, map[string]string{"env": "prod"}
			})},
			refused: []string{"has been registered", `"member1" is on the hub and not accepted, with these labels`, "env=prod", "--as-registered"},
		},
		"a name that only asks to join, as the user says": {
			reason: "the user has looked", asRegistered: true, there: true,
			clusters: clusters{"member1": cluster(func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = false })},
		},
		"another name that only asks to join, and says that it is this cluster": {
			reason: "anybody can say so", clusters: clusters{"other": cluster(func(mc *clusterv1.ManagedCluster) {
				isOf(ours)(mc)
				mc.Spec.HubAcceptsClient = false
			})},
		},
		"a cluster that is leaving": {
			reason: "what is joined now would be removed", connections: connections{"member1": push(ours)}, refused: []string{"is about to leave", "capstan unjoin member1"},
			clusters: clusters{"member1": cluster(func(mc *clusterv1.ManagedCluster) { mc.DeletionTimestamp = &now })},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decideJoin(hubFleet{clusters: c.clusters, connections: c.connections}, "member1", ours, c.asRegistered)
			if (err != nil) != (len(c.refused) > 0) {
				t.Fatalf("%s: error %v", c.reason, err)
			}
			for _, want := range c.refused {
				if !strings.Contains(exit.FormatError(err), want) {
					t.Errorf("%s: %q is not in the error:\n%s", c.reason, want, exit.FormatError(err))
				}
			}
			if (got.cluster != nil) != c.there || got.wasPull != c.wasPull {
				t.Errorf("%s: the plan is %+v", c.reason, got)
			}
		})
	}
}
