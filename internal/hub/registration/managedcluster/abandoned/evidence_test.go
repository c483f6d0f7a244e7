// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package abandoned

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

func TestAWorkWaitsForAnAgentThatMayHaveAppliedIt(t *testing.T) {
	cluster := func(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{}}}
		if change != nil {
			change(mc)
		}
		return mc
	}
	says := func(kind string, status metav1.ConditionStatus) *clusterv1.ManagedCluster {
		return cluster(func(mc *clusterv1.ManagedCluster) {
			mc.Status.Conditions = []metav1.Condition{{Type: kind, Status: status}}
		})
	}
	bound := func(agents policy.AgentNames) *rbacv1.RoleBinding {
		return grants.WorkRoleBinding("c", grants.AgentSubjects("c", agents)...)
	}
	connected := func(mode fleetv1alpha1.SyncMode) *fleetv1alpha1.ClusterConnection {
		return &fleetv1alpha1.ClusterConnection{Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: mode}}
	}
	cases := map[string]struct {
		reason string
		known  evidence
		want   bool
	}{
		"a cluster that nobody accepted": {known: evidence{Cluster: cluster(nil)}},
		"one that is accepted, of which no agent has come": {
			reason: "the binding names only whom AWS lets in, and the condition is the hub's",
			known:  evidence{Cluster: says(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown), Binding: bound("")},
		},
		"an agent with a certificate": {
			reason: "it applies before it reports anything", want: true,
			known: evidence{Cluster: cluster(func(mc *clusterv1.ManagedCluster) { mc.Annotations[clusterv1.AnnotationAgents] = "abcde" })},
		},
		"agents that have rights": {
			reason: "somebody may have removed the annotation", want: true, known: evidence{Cluster: cluster(nil), Binding: bound("abcde")},
		},
		"any agent with a certificate": {want: true, known: evidence{Cluster: cluster(nil), Binding: bound(policy.AnyAgent)}},
		"the agent of Push clusters": {
			want: true, known: evidence{Cluster: cluster(nil), Binding: grants.WorkRoleBinding("c", grants.PushAgent("hub"))},
		},
		"an agent that AWS lets in": {
			reason: "it needs no certificate", want: true,
			known: evidence{Cluster: cluster(func(mc *clusterv1.ManagedCluster) { mc.Annotations[annotationARN] = "arn:aws:eks" })},
		},
		"a cluster that has joined": {want: true, known: evidence{Cluster: says(clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)}},
		"one that had joined":       {want: true, known: evidence{Cluster: says(clusterv1.ManagedClusterConditionJoined, metav1.ConditionFalse)}},
		"one that is available":     {want: true, known: evidence{Cluster: says(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue)}},
		"one that is not": {
			reason: "its agent says so", want: true, known: evidence{Cluster: says(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionFalse)},
		},
		"a version": {want: true, known: evidence{Cluster: cluster(func(mc *clusterv1.ManagedCluster) { mc.Status.Version.Kubernetes = "v1.36.0" })}},
		"a capacity": {want: true, known: evidence{Cluster: cluster(func(mc *clusterv1.ManagedCluster) {
			mc.Status.Capacity = clusterv1.ResourceList{"cpu": resource.MustParse("1")}
		})}},
		"claims": {want: true, known: evidence{Cluster: cluster(func(mc *clusterv1.ManagedCluster) {
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "a", Value: "b"}}
		})}},
		"a Push cluster that is denied": {
			reason: "its agent may have applied the work before it reported anything", want: true,
			known: evidence{Cluster: says(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse), Connection: connected(fleetv1alpha1.SyncModePush)},
		},
		"a Push cluster that was never accepted": {
			reason: "the push agent gets its rights with the acceptance",
			known:  evidence{Cluster: cluster(nil), Connection: connected(fleetv1alpha1.SyncModePush)},
		},
		"a Pull cluster that was denied before an agent came": {
			known: evidence{Cluster: says(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse), Connection: connected(fleetv1alpha1.SyncModePull)},
		},
		"a work with a status, of a cluster without any": {
			reason: "somebody may have removed that of the cluster", want: true, known: evidence{Cluster: cluster(nil), Reported: true},
		},
		"no ManagedCluster": {},
		"no ManagedCluster, and the work has a status": {
			reason: "an agent that joins anew removes what no work is for", known: evidence{Reported: true},
		},
		"no ManagedCluster, and agents that clean up": {
			reason: "they keep their rights as long as there are works", want: true, known: evidence{Binding: bound("abcde")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.known.agentMayHaveApplied(); got != tc.want {
				t.Errorf("%s\nit waits for an agent: %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}
