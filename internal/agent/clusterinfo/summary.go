// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/nodes"
	"github.com/capstan-io/capstan/internal/cluster/grades"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// setNodeSummary says what nodes there are, and where, once that is known, and what the pods
// request, if somebody asks for it. It returns when that may change, zero if
// nothing is known to come.
func (r *infoReporter) setNodeSummary(ctx context.Context, want *fleetv1alpha1.ClusterConnection, now time.Time) (again time.Duration, err error) {
	if !r.nodes.HasSynced() {
		return 0, nil
	}
	list := &corev1.NodeList{}
	if err := r.connection.Spoke.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("reading the nodes of cluster %q: %w", want.Name, err)
	}
	want.Status.NodeSummary = &fleetv1alpha1.NodeSummary{
		TotalNum: int32(len(list.Items)), ReadyNum: int32(nodes.CountReady(list.Items)), //nolint:gosec // no cluster has so many
	}
	place := nodes.TopologyOf(list.Items)
	want.Status.Zones = place.Zones
	want.Status.Region = place.Region
	want.Status.Provider = place.Provider
	summary := &fleetv1alpha1.ResourceSummary{}
	summary.Capacity, summary.Allocatable = nodes.SumResources[string](list.Items)
	if r.pods == nil {
		want.Status.ResourceSummary = summary
		meta.RemoveStatusCondition(&want.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary)
		return 0, nil
	}
	taken, again := r.pods.takeSums(now)
	switch {
	case taken != nil:
		summary.Allocating, summary.Allocated = taken.Waiting.ResourceQuantities(), taken.Placed.ResourceQuantities()
		summary.AllocatableModelings = grades.CountNodes(grades.ModelsOf(&want.Spec), taken.RemainingPerNode(list.Items))
		setResourceSummaryCondition(want, metav1.ConditionTrue, fleetv1alpha1.ClusterConnectionReasonComplete, "all pods are counted")
	case r.pods.isForbidden():
		setResourceSummaryCondition(want, metav1.ConditionFalse, fleetv1alpha1.ClusterConnectionReasonPodsForbidden,
			"the agent may not list and watch pods, so allocating, allocated and allocatableModelings are missing")
	default:
		if before := want.Status.ResourceSummary; before != nil {
			summary.Allocating = before.Allocating
			summary.Allocated = before.Allocated
			summary.AllocatableModelings = before.AllocatableModelings
		}
		if meta.FindStatusCondition(want.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary) == nil {
			setResourceSummaryCondition(want, metav1.ConditionFalse, fleetv1alpha1.ClusterConnectionReasonPodsUnknown, "the pods have not been listed yet")
		}
	}
	want.Status.ResourceSummary = summary
	return again, nil
}

// setResourceSummaryCondition says whether the pods are counted.
func setResourceSummaryCondition(want *fleetv1alpha1.ClusterConnection, status metav1.ConditionStatus, reason, message string) {
	conditions.SetCondition(&want.Status.Conditions, want.Generation, metav1.Condition{
		Type: fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary, Status: status, Reason: reason, Message: message,
	})
}
