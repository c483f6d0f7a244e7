// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// plainPlacement is a placement that the controller leaves alone, and the
// decisions to write for it: the limit for what the controller does.
type plainPlacement struct {
	placement *clusterv1beta1.Placement
	decisions []*clusterv1beta1.PlacementDecision
}

// preparePlain creates n placements and returns them with decisions for some
// clusters each, which are not there yet.
func (h *placementHub) preparePlain(ctx context.Context, n, clusters int) ([]plainPlacement, error) {
	all := make([]plainPlacement, n)
	return all, parallel(ctx, n, func(ctx context.Context, i int) error {
		p := placement(probeNamespace, fmt.Sprintf("app-%04d", i), nil)
		p.Annotations = map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}
		if err := h.client.Create(ctx, p); err != nil {
			return fmt.Errorf("creating Placement %q: %w", p.Name, err)
		}
		all[i].placement = p
		for from := 0; from < clusters; from += clusterv1beta1.DecisionsMax {
			d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: fmt.Sprintf("%s-decision-%d", p.Name, len(all[i].decisions)+1),
				Labels: map[string]string{
					clusterv1beta1.LabelPlacement: p.Name, clusterv1beta1.LabelDecisionGroupIndex: "0", clusterv1beta1.LabelDecisionGroupName: "",
				},
			}}
			if err := controllerutil.SetControllerReference(p, d, h.client.Scheme()); err != nil {
				return fmt.Errorf("owning PlacementDecision %q: %w", d.Name, err)
			}
			for c := from; c < min(clusters, from+clusterv1beta1.DecisionsMax); c++ {
				d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: "plain-" + strconv.Itoa(10000+c)})
			}
			all[i].decisions = append(all[i].decisions, d)
		}
		return nil
	})
}

// writePlain writes the decisions and then says so in the placements, with as
// many requests at a time as the controller.
func (h *placementHub) writePlain(ctx context.Context, all []plainPlacement) (time.Duration, error) {
	started := time.Now()
	err := atOnce(ctx, controllerWorkers, len(all), func(ctx context.Context, i int) error {
		err := atOnce(ctx, controllerWorkers, len(all[i].decisions), func(ctx context.Context, k int) error {
			return h.writeDecision(ctx, all[i].decisions[k])
		})
		if err != nil {
			return err
		}
		return h.writeSelected(ctx, all[i])
	})
	return time.Since(started), err
}

// writeDecision creates a decision with its status, or changes the status of
// one that is there.
func (h *placementHub) writeDecision(ctx context.Context, d *clusterv1beta1.PlacementDecision) error {
	decisions := d.Status.Decisions
	if d.ResourceVersion == "" {
		if err := h.client.Create(ctx, d); err != nil {
			return fmt.Errorf("creating PlacementDecision %q: %w", d.Name, err)
		}
	} else {
		decisions = decisions[1:]
	}
	d.Status.Decisions = decisions
	if err := h.client.Status().Update(ctx, d); err != nil {
		return fmt.Errorf("writing the status of PlacementDecision %q: %w", d.Name, err)
	}
	return nil
}

// writeSelected writes the status of a placement as the controller does.
func (h *placementHub) writeSelected(ctx context.Context, plain plainPlacement) error {
	p := plain.placement
	before := p.DeepCopy()
	group := clusterv1beta1.DecisionGroupStatus{}
	for _, d := range plain.decisions {
		group.Decisions = append(group.Decisions, d.Name)
		group.ClustersCount += int32(len(d.Status.Decisions))
	}
	p.Status.NumberOfSelectedClusters = group.ClustersCount
	p.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{group}
	p.Status.Conditions = []metav1.Condition{
		{
			Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: clusterv1beta1.PlacementReasonAllDecisionsScheduled, Message: "As many clusters were chosen as are wanted",
		},
		{
			Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now(),
			Reason: clusterv1beta1.PlacementReasonSucceedConfigured, Message: "The spec is right",
		},
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := h.client.Status().Patch(ctx, p, patch); err != nil {
		return fmt.Errorf("writing the status of Placement %q: %w", p.Name, err)
	}
	return nil
}
