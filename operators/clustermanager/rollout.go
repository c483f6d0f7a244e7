// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// rollout is how far the Deployment of a component is.
type rollout struct {
	deployment string
	// countsFor is the condition that tells whether pods are missing.
	countsFor string
	// rolling is true while pods of an earlier state run or pods are missing
	// that never were there.
	rolling bool
	// wanted and available are numbers of pods.
	wanted, available int32
	// trouble is what the Deployment says of pods that cannot be made.
	trouble string
}

// components installs the Deployments and finds out how far they are.
func (c *Controller) components(ctx context.Context, p *pass) error {
	var err error
	if p.hub.PushClusters, err = c.pushClusters(ctx, p.site); err != nil {
		return err
	}
	for _, component := range manifests.Components(p.hub) {
		records, err := c.home.applier.Apply(ctx, component.Workload.Deployment())
		p.records = append(p.records, records...)
		if err != nil {
			return err
		}
		live, err := c.deployment(ctx, component.Workload.Name, p)
		if err != nil {
			return err
		}
		p.rollouts = append(p.rollouts, rolloutOf(component, records[0], live))
	}
	return nil
}

// look finds out how those components are that are installed, while nothing can
// be changed.
func (c *Controller) look(ctx context.Context, p *pass) error {
	for _, component := range manifests.Components(p.hub) {
		live, err := c.deployment(ctx, component.Workload.Name, p)
		if err != nil {
			return err
		}
		if live.UID != "" {
			p.rollouts = append(p.rollouts, rolloutOf(component, render.Record{Generation: live.Generation}, live))
		}
	}
	return nil
}

// deployment returns a Deployment of the hub; one without a UID means that there
// is none.
func (c *Controller) deployment(ctx context.Context, name string, p *pass) (*appsv1.Deployment, error) {
	live := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: p.hub.Namespace(), Name: name}
	if err := c.client.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Deployment %q: %w", key, err)
	}
	return live, nil
}

// rolloutOf compares the Deployment, as the cache has it, with what was applied.
func rolloutOf(component manifests.Component, applied render.Record, live *appsv1.Deployment) rollout {
	r := rollout{
		deployment: component.Workload.Name, countsFor: component.CountsFor,
		wanted: component.Workload.Replicas, available: live.Status.AvailableReplicas,
	}
	// A cache that has not seen our own write yet must not look like success.
	seen := live.Generation >= applied.Generation && live.Status.ObservedGeneration >= applied.Generation
	r.rolling = !seen || live.Status.UpdatedReplicas < r.wanted || live.Status.Replicas > live.Status.UpdatedReplicas ||
		live.Status.AvailableReplicas < r.wanted
	if !seen {
		r.available = 0
	}
	for _, condition := range live.Status.Conditions {
		failed := condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue ||
			condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse
		if failed {
			r.trouble = condition.Message
		}
	}
	return r
}

// rollingNow returns a sentence about the Deployments that are not as wanted
// yet, or nothing.
func rollingNow(rollouts []rollout) string {
	var parts []string
	for _, r := range rollouts {
		if r.rolling {
			parts = append(parts, r.String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not all pods are of the present state and available: " + strings.Join(parts, "; ")
}

func (r rollout) String() string {
	text := fmt.Sprintf("%s has %d of %d pods available", r.deployment, r.available, r.wanted)
	if r.trouble != "" {
		text += " (" + r.trouble + ")"
	}
	return text
}
