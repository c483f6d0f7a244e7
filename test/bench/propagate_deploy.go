// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// deploy sends Deployments to all clusters, counts the writes of the hub, and
// deletes them. The probe is the delivery of works as the controller has made
// them, and their deletion.
func (b *propagateBench) deploy(ctx context.Context) error {
	if err := b.join(ctx); err != nil {
		return err
	}
	for _, n := range b.options.deployments {
		if err := b.deployMany(ctx, n); err != nil {
			return fmt.Errorf("%d Deployments: %w", n, err)
		}
	}
	return nil
}

func (b *propagateBench) deployMany(ctx context.Context, n int) error {
	r := b.hub.newRound(n, deploymentTemplate)
	took, asked, err := b.hub.counted(ctx, r)
	if err != nil {
		return err
	}
	if err := b.remember(ctx, n); err != nil {
		return err
	}
	ready, err := b.hub.readyMade(ctx, r)
	if err != nil {
		return err
	}
	probe, err := b.hub.works.deliver(ctx, ready)
	if err != nil {
		return fmt.Errorf("delivering works that were made before: %w", err)
	}
	gone, err := b.hub.removed(ctx, r, n*propagateClusters)
	if err != nil {
		return err
	}
	removed, err := b.hub.works.remove(ctx, ready)
	if err != nil {
		return fmt.Errorf("deleting works that were made before: %w", err)
	}
	b.figure(fmt.Sprintf(deployFigure, n)).add(took.Seconds(), probe.Seconds())
	written, events := writesOf(asked)
	b.figure(fmt.Sprintf(deployWritesFigure, n)).add(written/float64(n), 0)
	b.figure(fmt.Sprintf(deployEventsFigure, n)).add(events/float64(n), 0)
	b.figure(fmt.Sprintf(undeployFigure, n)).add(gone.Seconds(), removed.Seconds())
	return writeKinds(asked, n, b.options.profiles, fmt.Sprintf("propagate-%d", n))
}

// counted sends Deployments to all clusters, and returns how long it took, and what
// the hub was asked for until a moment after that.
func (h *policyHub) counted(ctx context.Context, r round) (time.Duration, fleet.Requests, error) {
	if err := h.createTemplates(ctx, r); err != nil {
		return 0, fleet.Requests{}, err
	}
	if err := fleet.Pause(ctx, calm); err != nil {
		return 0, fleet.Requests{}, err
	}
	before, err := fleet.CountRequests(ctx, h.fleet.Hub.Kubernetes)
	if err != nil {
		return 0, fleet.Requests{}, err
	}
	took, err := h.untilBindings(ctx, r, workv1alpha2.BindingConditionFullyApplied, func() error { return h.createPolicy(ctx, r, everywhere()) })
	if err != nil {
		return 0, fleet.Requests{}, err
	}
	if err := fleet.Pause(ctx, calm); err != nil {
		return 0, fleet.Requests{}, err
	}
	after, err := fleet.CountRequests(ctx, h.fleet.Hub.Kubernetes)
	return took, after.Minus(before), err
}

// remember adds what the controller and the agents keep in memory when nothing
// happens any more.
func (b *propagateBench) remember(ctx context.Context, n int) error {
	if err := fleet.Pause(ctx, memorySettle); err != nil {
		return err
	}
	controller, err := b.hub.controller.Usage()
	if err != nil {
		return err
	}
	all, err := fleet.Total(b.fleet.Agents)
	if err != nil {
		return err
	}
	b.figure(fmt.Sprintf(deployHubFigure, n)).add(controller.AnonMiB, 0)
	b.figure(fmt.Sprintf(deployAgentFigure, n)).add((all.AnonMiB-controller.AnonMiB)/propagateClusters, 0)
	return nil
}

// events counts the writes of the hub for Deployments that are sent to all clusters
// by a controller that records Karmada's Events.
func (b *propagateBench) events(ctx context.Context) error {
	if err := b.join(ctx); err != nil {
		return err
	}
	b.hub.stop()
	if err := b.hub.start(ctx, string(features.KarmadaEvents)+"=true"); err != nil {
		return err
	}
	n := b.options.deployments[0]
	r := b.hub.newRound(n, deploymentTemplate)
	_, asked, err := b.hub.counted(ctx, r)
	if err != nil {
		return err
	}
	written, events := writesOf(asked)
	b.figure(fmt.Sprintf(karmadaWritesFigure, n)).add(written/float64(n), 0)
	b.figure(fmt.Sprintf(karmadaEventsFigure, n)).add(events/float64(n), 0)
	if _, err := b.hub.removed(ctx, r, n*propagateClusters); err != nil {
		return err
	}
	b.hub.stop()
	if err := b.hub.start(ctx); err != nil {
		return err
	}
	return writeKinds(asked, n, b.options.profiles, "propagate-events")
}

// writesOf returns how often a hub was written to, without Events and the leases
// of who is alive, and how often Events were.
func writesOf(asked fleet.Requests) (written, events float64) {
	events = asked.ByKind["POST events"] + asked.ByKind["PATCH events"]
	return asked.Writes - events - asked.ByKind["PUT leases"] - asked.ByKind["PATCH leases"], events
}

// move changes the policy of Deployments from half of the clusters to the others.
// The probe delivers works that were made before to these, and then deletes those.
func (b *propagateBench) move(ctx context.Context) error {
	if err := b.join(ctx); err != nil {
		return err
	}
	n := b.options.deployments[0]
	from, to := clusterNames(0, propagateClusters/2), clusterNames(propagateClusters/2, propagateClusters)
	r := b.hub.newRound(n, deploymentTemplate)
	if err := b.hub.propagated(ctx, r, onClusters(from)); err != nil {
		return err
	}
	old, err := b.hub.readyMade(ctx, r)
	if err != nil {
		return err
	}
	moved := make([]*workv1.ManifestWork, len(old))
	for i, work := range old {
		moved[i] = work.DeepCopy()
		moved[i].Labels = map[string]string{roundLabel: work.Labels[roundLabel] + "-moved"}
		moved[i].Namespace = to[i%len(to)]
		moved[i].Name = fmt.Sprintf("%s-%d", work.Name, i)
	}
	if _, err := b.hub.works.deliver(ctx, old); err != nil {
		return err
	}
	there, err := b.hub.works.deliver(ctx, moved)
	if err != nil {
		return err
	}
	gone, err := b.hub.works.remove(ctx, old)
	if err != nil {
		return err
	}
	took, err := b.hub.untilMoved(ctx, r, to, func() error { return b.hub.changePolicy(ctx, r, onClusters(to)) })
	if err != nil {
		return err
	}
	b.figure(fmt.Sprintf(moveFigure, n)).add(took.Seconds(), (there + gone).Seconds())
	_, removeErr := b.hub.works.remove(ctx, moved)
	_, err = b.hub.removed(ctx, r, n*len(to))
	return errors.Join(removeErr, err)
}
