// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// PreviewScheduling chooses clusters for a Placement as Reconcile does, and writes nothing.
// The client should read from a cache with the index of IndexDecisions, which it does not
// change. The present
// decisions are those of the Placement's UID. Problems are the user's; with any,
// there is no result.
func PreviewScheduling(
	ctx context.Context, cached client.Client, clk clock.PassiveClock, p *clusterv1beta1.Placement,
) (scheduler.ScheduleResult, field.ErrorList, error) {
	c := NewSchedulingController(cached, clk, events.NewDiscardRecorder())
	bound, err := c.listBoundSets(ctx, p.Namespace)
	if err != nil {
		return scheduler.ScheduleResult{}, nil, err
	}
	request, problems := placement.CompilePlacement(p, bound)
	if len(problems) > 0 {
		return scheduler.ScheduleResult{}, problems, nil
	}
	decisions, err := c.listDecisions(ctx, p)
	if err != nil {
		return scheduler.ScheduleResult{}, nil, err
	}
	if err := c.loadModel(ctx); err != nil {
		return scheduler.ScheduleResult{}, nil, err
	}
	has := slices.Sorted(slices.Values(listedClusters(decisions.slices)))
	fleet, _ := c.model.snapshot()
	return scheduler.ScheduleClusters(fleet, request.ClusterRequest, has, clk.Now()), nil, nil
}

// loadModel tells the model at once what the watches tell it one by one.
func (c *SchedulingController) loadModel(ctx context.Context) error {
	clusters := &clusterv1.ManagedClusterList{}
	scores := &clusterv1alpha1.AddOnPlacementScoreList{}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	for _, list := range []client.ObjectList{clusters, scores, decisions} {
		if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range scores.Items {
		c.observeScores(&scores.Items[i], false)
	}
	for i := range decisions.Items {
		c.observeDecision(&decisions.Items[i], false)
	}
	for i := range clusters.Items {
		c.observeCluster(&clusters.Items[i], false)
	}
	return nil
}
