// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// memberGoneAfter is how long the removal of hosted agents waits for a managed
// cluster that cannot be reached. What is installed there is then left behind.
const memberGoneAfter = 5 * time.Minute

// reachForRemoval finds the cluster that the agents work on, to remove what is
// installed there. There is none in the pass if it is given up.
func (c *Controller) reachForRemoval(ctx context.Context, p *pass) error {
	if !controllerutil.ContainsFinalizer(p.klusterlet, operatorv1.FinalizerKlusterletHostedCleanup) {
		p.member = c.home // nothing is installed on another cluster
		return nil
	}
	outcome, err := c.reach(ctx, p)
	if err != nil {
		return err
	}
	if p.member != nil {
		return c.changeMeta(ctx, p, func(k *operatorv1.Klusterlet) bool {
			_, was := k.Annotations[operatorv1.AnnotationManagedResourcesEvictionTimestamp]
			delete(k.Annotations, operatorv1.AnnotationManagedResourcesEvictionTimestamp)
			return was
		})
	}
	if !outcome.Verdict.Gone() {
		return waitError{memberRetry, fmt.Sprintf("what is installed on the managed cluster cannot be removed: %s; mend secret %q, or delete it to leave all that behind",
			outcome.Message, p.klusterlet.Name+"/"+operatorv1.ExternalManagedKubeConfigSecret)}
	}
	since, err := c.unreachableSince(ctx, p)
	if err != nil {
		return err
	}
	until := since.Add(memberGoneAfter)
	if left := until.Sub(c.Clock.Now()); left > 0 {
		return waitError{min(left, memberRetry), fmt.Sprintf("what is installed on the managed cluster cannot be removed: %s; it is left behind after %s",
			outcome.Message, until.UTC().Format(time.RFC3339))}
	}
	c.Events.Eventf(p.klusterlet, nil, corev1.EventTypeWarning, reasonLeftBehind, actionRemove,
		"what is installed on the managed cluster is left behind: %s", outcome.Message)
	return nil
}

// unreachableSince returns the time at which the removal first could not reach
// the managed cluster. It is kept in an annotation, for operators that restart.
func (c *Controller) unreachableSince(ctx context.Context, p *pass) (time.Time, error) {
	const key = operatorv1.AnnotationManagedResourcesEvictionTimestamp
	if since, err := time.Parse(time.RFC3339, p.klusterlet.Annotations[key]); err == nil {
		return since, nil
	}
	now := c.Clock.Now()
	return now, c.changeMeta(ctx, p, func(k *operatorv1.Klusterlet) bool {
		if k.Annotations == nil {
			k.Annotations = map[string]string{}
		}
		k.Annotations[key] = now.UTC().Format(time.RFC3339)
		return true
	})
}

// releaseMember tells that nothing of the Klusterlet is left on the managed
// cluster, or that it is given up, so that its secret is needed no more.
func (c *Controller) releaseMember(ctx context.Context, p *pass) error {
	c.members.Forget(p.klusterlet.Name)
	return c.changeMeta(ctx, p, func(k *operatorv1.Klusterlet) bool {
		return controllerutil.RemoveFinalizer(k, operatorv1.FinalizerKlusterletHostedCleanup)
	})
}
