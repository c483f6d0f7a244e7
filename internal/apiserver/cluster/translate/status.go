// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/projection"
)

func clusterStatus(connection *fleetv1alpha1.ClusterConnection) v1alpha1.ClusterStatus {
	from := &connection.Status
	to := v1alpha1.ClusterStatus{
		KubernetesVersion: from.KubernetesVersion,
		Conditions:        clusterConditions(connection),
		ResourceSummary:   resourceSummary(from.ResourceSummary),
	}
	for _, e := range from.APIEnablements {
		enablement := v1alpha1.APIEnablement{GroupVersion: e.GroupVersion}
		for _, r := range e.Resources {
			enablement.Resources = append(enablement.Resources, v1alpha1.APIResource(r))
		}
		to.APIEnablements = append(to.APIEnablements, enablement)
	}
	if from.NodeSummary != nil {
		to.NodeSummary = &v1alpha1.NodeSummary{TotalNum: from.NodeSummary.TotalNum, ReadyNum: from.NodeSummary.ReadyNum}
	}
	return to
}

func resourceSummary(from *fleetv1alpha1.ResourceSummary) *v1alpha1.ResourceSummary {
	if from == nil {
		return nil
	}
	to := &v1alpha1.ResourceSummary{
		Allocatable: copyResourceList(from.Allocatable), Allocating: copyResourceList(from.Allocating), Allocated: copyResourceList(from.Allocated),
	}
	for _, m := range from.AllocatableModelings {
		to.AllocatableModelings = append(to.AllocatableModelings, v1alpha1.AllocatableModeling{Grade: uint(max(m.Grade, 0)), Count: int(m.Count)})
	}
	return to
}

func copyResourceList(from fleetv1alpha1.ResourceList) corev1.ResourceList {
	if from == nil {
		return nil
	}
	to := make(corev1.ResourceList, len(from))
	for name, quantity := range from {
		to[corev1.ResourceName(name)] = quantity.DeepCopy()
	}
	return to
}

// isHiddenCondition reports whether a condition of a ClusterConnection does not show in its
// Cluster: Ready says what those of the push agent mean.
func isHiddenCondition(conditionType string) bool {
	return conditionType == fleetv1alpha1.ClusterConnectionConditionConnected ||
		conditionType == fleetv1alpha1.ClusterConnectionConditionCredentialsValid
}

// isAgentCondition reports whether the agent of a cluster reports a condition of Clusters.
func isAgentCondition(conditionType string) bool {
	return conditionType == v1alpha1.ClusterConditionCompleteAPIEnablements ||
		conditionType == fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary
}

// IsHubCondition reports whether the hub itself maintains a condition of Clusters, so that
// nobody else can set it.
func IsHubCondition(conditionType string) bool {
	return isHiddenCondition(conditionType) || conditionType == v1alpha1.ClusterConditionReady ||
		isAgentCondition(conditionType) || conditionType == clusterv1.ManagedClusterConditionDuplicateIdentity
}

// clusterConditions returns those of a Cluster: Ready, that two clusters are the same,
// and then those in the status of the ClusterConnection in their order, which are
// the agent's and those of clients of the Cluster API.
func clusterConditions(connection *fleetv1alpha1.ClusterConnection) []metav1.Condition {
	all := []metav1.Condition{readyCondition(connection)}
	if c := meta.FindStatusCondition(connection.Cluster.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity); c != nil {
		all = append(all, withoutGeneration(*c))
	}
	for _, c := range connection.Status.Conditions {
		switch {
		case isAgentCondition(c.Type):
			all = append(all, withoutGeneration(c))
		case !IsHubCondition(c.Type):
			all = append(all, c)
		}
	}
	return all
}

// withoutGeneration returns a condition without the generation that it is about, which is
// that of the object that it was set on.
func withoutGeneration(c metav1.Condition) metav1.Condition {
	c.ObservedGeneration = 0
	return c
}

// readyCondition says in Karmada's words what ManagedCluster and ClusterConnection say.
func readyCondition(connection *fleetv1alpha1.ClusterConnection) metav1.Condition {
	cluster := connection.Cluster
	answer := func(c *metav1.Condition, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{
			Type: v1alpha1.ClusterConditionReady, Status: status, Reason: reason,
			Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		}
	}
	unknown := func(message string) metav1.Condition {
		return answer(&metav1.Condition{Message: message, LastTransitionTime: cluster.CreationTimestamp}, metav1.ConditionUnknown, v1alpha1.ClusterReasonStatusUnknown)
	}
	accepted := meta.FindStatusCondition(cluster.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	available := meta.FindStatusCondition(cluster.Conditions, clusterv1.ManagedClusterConditionAvailable)
	connected := meta.FindStatusCondition(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected)
	push := connection.Spec.SyncMode == fleetv1alpha1.SyncModePush
	refused := connected != nil && connected.Status == metav1.ConditionFalse
	missing := missingSecret(connection)
	switch {
	case !cluster.Accepted:
		return unknown("The hub does not accept the cluster")
	case accepted != nil && accepted.Status != metav1.ConditionTrue:
		return answer(accepted, metav1.ConditionUnknown, v1alpha1.ClusterReasonStatusUnknown)
	case push && refused && connected.Reason == fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing:
		return answer(connected, metav1.ConditionFalse, v1alpha1.ClusterReasonNotReady)
	case available != nil && available.Status == metav1.ConditionTrue:
		return answer(available, metav1.ConditionTrue, v1alpha1.ClusterReasonReady)
	case missing != nil:
		return answer(missing, metav1.ConditionFalse, v1alpha1.ClusterReasonNotReachable)
	case push && refused:
		return answer(connected, metav1.ConditionFalse, v1alpha1.ClusterReasonNotReachable)
	case available == nil:
		return unknown("The cluster has not reported its state yet")
	case available.Status == metav1.ConditionFalse:
		return answer(available, metav1.ConditionFalse, v1alpha1.ClusterReasonNotReady)
	default:
		return answer(available, metav1.ConditionUnknown, v1alpha1.ClusterReasonStatusUnknown)
	}
}

// missingSecret says for which Secret a Push cluster waits, nil if the hub has a
// credential that it sends to the cluster.
func missingSecret(connection *fleetv1alpha1.ClusterConnection) *metav1.Condition {
	awaited := projection.AwaitedSecretFor(connection, LocalSecret(connection))
	credentials := meta.FindStatusCondition(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCredentialsValid)
	sends := credentials != nil && credentials.Reason != fleetv1alpha1.ClusterConnectionReasonSecretMissing
	if awaited == nil || sends || connection.Spec.SyncMode != fleetv1alpha1.SyncModePush {
		return nil
	}
	return &metav1.Condition{Message: awaited.Message, LastTransitionTime: awaited.RequestedAt}
}

// IgnoredStatusPaths returns the paths of what a write of the status would change if the hub did not
// maintain it, which stays as it is. Conditions that a write lacks stay without being
// named: a merge patch replaces the list.
func IgnoredStatusPaths(before, written *v1alpha1.Cluster) []string {
	var paths []string
	conditions := field.NewPath("status", "conditions")
	for _, c := range written.Status.Conditions {
		said := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if IsHubCondition(c.Type) && (said == nil || !equality.Semantic.DeepEqual(*said, c)) {
			paths = append(paths, conditions.Key(c.Type).String())
		}
	}
	was := before.Status.DeepCopy()
	is := written.Status.DeepCopy()
	was.Conditions = nil
	is.Conditions = nil
	if !equality.Semantic.DeepEqual(was, is) {
		paths = append(paths, "status but for conditions")
	}
	return paths
}

// MergeConditions returns the conditions of a ClusterConnection after its Cluster got
// others: those of types that the hub does not maintain become as they were
// written, all others stay.
func MergeConditions(connection *fleetv1alpha1.ClusterConnection, written []metav1.Condition) []metav1.Condition {
	var all []metav1.Condition
	for _, c := range connection.Status.Conditions {
		at := slices.IndexFunc(written, func(w metav1.Condition) bool { return w.Type == c.Type })
		switch {
		case IsHubCondition(c.Type):
			all = append(all, c)
		case at >= 0:
			all = append(all, written[at])
		}
	}
	for _, w := range written {
		if !IsHubCondition(w.Type) && meta.FindStatusCondition(all, w.Type) == nil {
			all = append(all, w)
		}
	}
	return all
}
