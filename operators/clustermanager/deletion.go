// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/render"
)

const (
	// DefaultDeletionDeadline is how long after its deletion a ClusterManager waits
	// for clusters that are not Available. Such a cluster has been silent for
	// minutes already, and tools wait for 90 s altogether.
	DefaultDeletionDeadline = time.Minute
	// removalRetry is how often we look whether something has gone.
	removalRetry = time.Second
)

// removal is a step of the removal of a hub. It returns what it still waits
// for, or nothing if the next step may begin.
type removal struct {
	// waiting is the reason of the condition Deleting while it waits, and retry how
	// often it is looked again.
	waiting string
	retry   time.Duration
	run     func(context.Context, *pass) (waitingFor string, err error)
}

// onHub leaves a step out if nothing is to be removed from the hub.
func onHub(step func(context.Context, *pass) (string, error)) func(context.Context, *pass) (string, error) {
	return func(ctx context.Context, p *pass) (string, error) {
		if p.site == nil {
			return "", nil
		}
		return step(ctx, p)
	}
}

// finalize removes the hub and then lets the ClusterManager go.
func (c *Controller) finalize(ctx context.Context, before, cm *operatorv1.ClusterManager) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(cm, operatorv1.FinalizerClusterManagerCleanup) {
		return ctrl.Result{}, nil
	}
	p := &pass{before: before, cm: cm, hub: hubOf(cm)}
	for _, step := range c.removals {
		waitingFor, err := step.run(ctx, p)
		if err == nil && waitingFor == "" {
			continue
		}
		reason, message := step.waiting, waitingFor
		if err != nil {
			reason, message = operatorv1.ClusterManagerReasonCleanupFailed, err.Error()
		}
		conditions.Set(&cm.Status.Conditions, cm.Generation, metav1.Condition{
			Type: operatorv1.ClusterManagerConditionDeleting, Status: metav1.ConditionTrue,
			Reason: reason, Message: message,
		})
		err = errors.Join(err, conditions.PatchStatus(ctx, c.client, p.before, cm), c.upgrade.tell(ctx, cm))
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: step.retry}, nil
	}
	err := c.changeMeta(ctx, p, func(cm *operatorv1.ClusterManager) bool {
		return controllerutil.RemoveFinalizer(cm, operatorv1.FinalizerClusterManagerCleanup)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	gone := cm.DeepCopy()
	gone.Status = operatorv1.ClusterManagerStatus{}
	return ctrl.Result{}, c.upgrade.tell(ctx, gone)
}

// deadline returns the time after which clusters that are not Available are not
// waited for, and how long after the deletion that is.
func deadline(cm *operatorv1.ClusterManager) (time.Time, time.Duration) {
	wait, err := time.ParseDuration(cm.Annotations[operatorv1.AnnotationDeletionDeadline])
	if err != nil || wait < 0 {
		wait = DefaultDeletionDeadline
	}
	return cm.DeletionTimestamp.Add(wait), wait
}

func (c *Controller) pastDeadline(cm *operatorv1.ClusterManager) bool {
	at, _ := deadline(cm)
	return !c.clock.Now().Before(at)
}

// removeInstalled removes everything but namespaces: first what would refuse
// others their changes, then those who work on the hub, then what lets them.
func (c *Controller) removeInstalled(ctx context.Context, p *pass) (string, error) {
	if p.site != nil && p.site != c.home {
		if err := p.removeGates(ctx); err != nil {
			return "", err
		}
	}
	if _, err := c.home.applier.Prune(ctx, render.Scope{Kinds: installedKinds(), Labels: p.hub.Owner()}, nil); err != nil {
		return "", err
	}
	if p.site == nil || p.site == c.home {
		return "", nil
	}
	_, err := p.site.applier.Prune(ctx, render.Scope{Kinds: hubKinds(), Labels: p.hub.Owner()}, nil)
	return "", err
}

// removeHubNamespace removes the namespace on a hub that the operator does not
// run on. If it does nevertheless, as the secret leads to its own cluster, the
// namespace goes later: it has the secret that this removal needs.
func (c *Controller) removeHubNamespace(ctx context.Context, p *pass) (string, error) {
	if p.site == c.home {
		return "", nil
	}
	there, err := p.site.namespace(ctx, p.hub.Namespace())
	if err != nil || there == nil {
		return "", err
	}
	here, err := c.home.namespace(ctx, p.hub.Namespace())
	if err != nil || here != nil && here.UID == there.UID {
		return "", err
	}
	return c.removeNamespace(ctx, p, p.site)
}

// namespace reads a namespace; nil means that there is none.
func (s *site) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := s.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // "there is none" is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading the namespace %q: %w", name, err)
	}
	return namespace, nil
}

// removeHomeNamespace removes the one that the pods run in.
func (c *Controller) removeHomeNamespace(ctx context.Context, p *pass) (string, error) {
	return c.removeNamespace(ctx, p, c.home)
}

// removeNamespace removes the namespace of the hub with what is left in it, and
// waits for its end, but not beyond the deadline: nothing that we could do
// would speed it up.
func (c *Controller) removeNamespace(ctx context.Context, p *pass, where *site) (string, error) {
	name := p.hub.Namespace()
	namespace, err := where.namespace(ctx, name)
	if err != nil || namespace == nil || !ours(namespace, p.cm.Name) {
		return "", err
	}
	if namespace.DeletionTimestamp.IsZero() {
		if err := where.client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("deleting the namespace %q: %w", name, err)
		}
	}
	if c.pastDeadline(p.cm) {
		return "", nil
	}
	return fmt.Sprintf("the namespace %q is being removed", name), nil
}

// available tells whether a Deployment of the hub has a pod that works.
func (c *Controller) available(ctx context.Context, p *pass, part string) (bool, error) {
	live, err := c.deployment(ctx, p.cm.Name+"-"+part, p)
	if err != nil {
		return false, err
	}
	return live.Status.AvailableReplicas > 0, nil
}
