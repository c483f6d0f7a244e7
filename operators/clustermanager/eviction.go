// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// hubGoneAfter is how long the removal of a hosted hub waits for a hub that cannot
// be reached. What is installed there is then left behind.
const hubGoneAfter = 5 * time.Minute

// reachForRemoval finds the hub, to remove what is installed there. There is none
// in the pass if nothing is, or if it is given up.
func (c *Controller) reachForRemoval(ctx context.Context, p *pass) (string, error) {
	if !p.hub.Hosted() {
		p.site = c.home
		return "", nil
	}
	if !controllerutil.ContainsFinalizer(p.cm, operatorv1.FinalizerClusterManagerHostedCleanup) {
		return "", nil
	}
	outcome, err := c.reach(ctx, p)
	if err != nil {
		return "", err
	}
	if p.site != nil {
		return "", c.changeMeta(ctx, p, func(cm *operatorv1.ClusterManager) bool {
			_, was := cm.Annotations[operatorv1.AnnotationHubResourcesEvictionTimestamp]
			delete(cm.Annotations, operatorv1.AnnotationHubResourcesEvictionTimestamp)
			return was
		})
	}
	if !outcome.Verdict.Gone() {
		return fmt.Sprintf("what is installed on the hub cannot be removed: %s; mend secret %q, or delete it to leave all that behind",
			outcome.Message, hubSecret(p)), nil
	}
	since, err := c.unreachableSince(ctx, p)
	if err != nil {
		return "", err
	}
	if until := since.Add(hubGoneAfter); c.clock.Now().Before(until) {
		return fmt.Sprintf("what is installed on the hub cannot be removed: %s; it is left behind after %s",
			outcome.Message, until.UTC().Format(time.RFC3339)), nil
	}
	c.emitRemoval(p.cm, reasonLeftBehind, "what is installed on the hub is left behind: "+outcome.Message)
	return "", c.releaseHub(ctx, p)
}

// unreachableSince returns the time at which the removal first could not reach the
// hub. It is kept in an annotation, for operators that restart.
func (c *Controller) unreachableSince(ctx context.Context, p *pass) (time.Time, error) {
	const key = operatorv1.AnnotationHubResourcesEvictionTimestamp
	if since, err := time.Parse(time.RFC3339, p.cm.Annotations[key]); err == nil {
		return since, nil
	}
	now := c.clock.Now()
	return now, c.changeMeta(ctx, p, func(cm *operatorv1.ClusterManager) bool {
		if cm.Annotations == nil {
			cm.Annotations = map[string]string{}
		}
		cm.Annotations[key] = now.UTC().Format(time.RFC3339)
		return true
	})
}

// releaseHub remembers that nothing of ours is left on a hub that the operator
// does not run on, or that it is given up, so that its secret is needed no more.
func (c *Controller) releaseHub(ctx context.Context, p *pass) error {
	c.hubs.Forget(p.cm.Name)
	return c.changeMeta(ctx, p, func(cm *operatorv1.ClusterManager) bool {
		return controllerutil.RemoveFinalizer(cm, operatorv1.FinalizerClusterManagerHostedCleanup)
	})
}

// hubReleased is the step of the removal after which the hub is not needed.
func (c *Controller) hubReleased(ctx context.Context, p *pass) (string, error) {
	return "", c.releaseHub(ctx, p)
}
