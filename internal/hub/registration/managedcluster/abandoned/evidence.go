// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package abandoned

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// annotationARN is on ManagedClusters whose agents come through AWS, without a certificate.
const annotationARN = "agent.open-cluster-management.io/managed-cluster-arn"

// evidence is what the hub knows about the agents of a work.
type evidence struct {
	// Cluster is the ManagedCluster, nil if there is none.
	Cluster *clusterv1.ManagedCluster
	// Connection is its ClusterConnection, nil if there is none.
	Connection *fleetv1alpha1.ClusterConnection
	// Binding gives agents their rights to works, nil if there is none.
	Binding *rbacv1.RoleBinding
	// Reported is true if the work has a status. No controller of the hub writes one.
	Reported bool
}

// agentMayHaveApplied reports whether an agent has or had a way to apply the work, so that
// only the agent knows that nothing is left in the member. Any sign of one is enough,
// since each of them may have been removed. The absence of a status proves nothing: an
// agent applies before it reports. But before it applies, the hub has given it an
// identity and rights. Without a ManagedCluster and without rights no agent comes back to
// the work; one that joins anew removes from the member what no work is for any more.
func (e evidence) agentMayHaveApplied() bool {
	if e.Cluster == nil {
		return bindsAgent(e.Binding)
	}
	return e.Reported || bindsAgent(e.Binding) || hadAgent(e.Cluster) || hadPushAgent(e.Cluster, e.Connection)
}

// bindsAgent reports whether a binding names agents: those with a certificate, or that of
// Push clusters. Every binding of a Pull cluster names the group of those who come
// through AWS.
func bindsAgent(binding *rbacv1.RoleBinding) bool {
	if binding == nil {
		return false
	}
	for _, subject := range binding.Subjects {
		if subject.Kind != rbacv1.GroupKind || subject.Name != clusterv1.GroupAWSPrefix+binding.Namespace {
			return true
		}
	}
	return false
}

// hadAgent reports whether an agent was given a certificate for the cluster, may come
// through AWS at any time, or has reported.
func hadAgent(mc *clusterv1.ManagedCluster) bool {
	available := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	return mc.Annotations[clusterv1.AnnotationAgents] != "" ||
		mc.Annotations[annotationARN] != "" ||
		meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined) != nil ||
		available != nil && available.Status != metav1.ConditionUnknown || // which the hub writes
		mc.Status.Version.Kubernetes != "" || len(mc.Status.Capacity) > 0 || len(mc.Status.ClusterClaims) > 0
}

// hadPushAgent reports whether the agent of Push clusters, which needs no certificate,
// worked for the cluster: it did as soon as the hub accepted the cluster, and a cluster that is
// denied now was accepted before if the hub says something about it.
func hadPushAgent(mc *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) bool {
	return connection != nil && connection.Spec.SyncMode == fleetv1alpha1.SyncModePush &&
		meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != nil
}
