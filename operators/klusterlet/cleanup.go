// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

const (
	// podsGoneMax is how long the removal waits for the pods of the agents to end.
	// One on a node that is gone never does.
	podsGoneMax = 30 * time.Second
	// podsGonePoll is how often it looks.
	podsGonePoll = time.Second
)

// errWaiting ends a walk through the cleanup that has to go on later.
var errWaiting = errors.New("waiting")

// finalize removes what was installed for the Klusterlet, without any contact
// to its hub. The ManagedCluster on the hub is the hub's administrator's.
func (c *Controller) finalize(ctx context.Context, p *pass) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.klusterlet, operatorv1.FinalizerKlusterletCleanup) {
		return ctrl.Result{}, nil
	}
	for _, phase := range c.cleanup {
		err := phase.run(ctx, p)
		if errors.Is(err, errWaiting) {
			return ctrl.Result{RequeueAfter: podsGonePoll}, nil
		}
		if err != nil {
			p.set(metav1.Condition{
				Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionFalse,
				Reason: phase.reason, Message: fmt.Sprintf("removing the %s failed: %v", phase.name, err),
			})
			return ctrl.Result{}, err
		}
	}
	before := p.klusterlet.DeepCopy()
	controllerutil.RemoveFinalizer(p.klusterlet, operatorv1.FinalizerKlusterletCleanup)
	err := c.Client.Patch(ctx, p.klusterlet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		controllerutil.AddFinalizer(p.klusterlet, operatorv1.FinalizerKlusterletCleanup)
		return ctrl.Result{}, fmt.Errorf("removing the finalizer: %w", err)
	}
	return ctrl.Result{}, nil
}

// gone tells whether the Klusterlet has no finalizer of ours any more, so its
// status must not be written.
func gone(klusterlet *operatorv1.Klusterlet) bool {
	return !klusterlet.DeletionTimestamp.IsZero() &&
		!controllerutil.ContainsFinalizer(klusterlet, operatorv1.FinalizerKlusterletCleanup)
}

// removeAgents deletes the Deployments and waits for their pods to end.
func (c *Controller) removeAgents(ctx context.Context, p *pass) error {
	marks := manifests.Marks(p.klusterlet)
	_, err := c.applier.Prune(ctx, render.Scope{
		Kinds:  []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment")},
		Labels: marks,
	}, nil)
	if err != nil {
		return err
	}
	if c.Clock.Since(p.klusterlet.DeletionTimestamp.Time) > podsGoneMax {
		return nil
	}
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.MatchingLabels(marks)); err != nil {
		return fmt.Errorf("listing the pods of the agents: %w", err)
	}
	if len(pods.Items) > 0 {
		return errWaiting
	}
	return nil
}

// removeAppliedWorks deletes the AppliedManifestWorks of this Klusterlet's agent
// and takes off the finalizer that the agent would, so that garbage collection
// removes the objects that they own. Those of other agents stay.
func (c *Controller) removeAppliedWorks(ctx context.Context, p *pass) error {
	works := &workv1.AppliedManifestWorkList{}
	err := c.Live.List(ctx, works)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // the kind was never installed
	}
	if err != nil {
		return fmt.Errorf("listing AppliedManifestWorks: %w", err)
	}
	var errs []error
	for i := range works.Items {
		if work := &works.Items[i]; work.Spec.AgentID == string(p.klusterlet.UID) {
			errs = append(errs, c.removeAppliedWork(ctx, work))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) removeAppliedWork(ctx context.Context, work *workv1.AppliedManifestWork) error {
	// Deleted before the finalizer is off: an operator that stops in between
	// must not leave a work without a finalizer that is not being deleted.
	if work.DeletionTimestamp.IsZero() {
		err := c.Client.Delete(ctx, work, client.Preconditions{UID: &work.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting AppliedManifestWork %q: %w", work.Name, err)
		}
	}
	before := work.DeepCopy()
	if !controllerutil.RemoveFinalizer(work, workv1.FinalizerAppliedManifestWorkCleanup) {
		return nil
	}
	err := c.Client.Patch(ctx, work, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of AppliedManifestWork %q: %w", work.Name, err)
	}
	return nil
}

// removeAccess deletes the roles and what else has the marks of the Klusterlet.
func (c *Controller) removeAccess(ctx context.Context, p *pass) error {
	_, err := c.applier.Prune(ctx, render.Scope{
		Kinds: []schema.GroupVersionKind{
			rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
			rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
			rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
			rbacv1.SchemeGroupVersion.WithKind("Role"),
			networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
			corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		},
		Labels: manifests.Marks(p.klusterlet),
	}, nil)
	return err
}

// removeNamespaces deletes the namespaces of the agents, with the credentials
// in them, unless another Klusterlet has its agents there.
func (c *Controller) removeNamespaces(ctx context.Context, p *pass) error {
	others, err := c.others(ctx, p.klusterlet)
	if err != nil {
		return err
	}
	used := map[string]bool{c.Settings.Namespace: true}
	for i := range others {
		used[manifests.AgentNamespace(&others[i])] = true
	}
	remove, err := c.oldNamespaces(ctx, p.klusterlet)
	if err != nil {
		return err
	}
	current := &corev1.Namespace{}
	err = c.Client.Get(ctx, types.NamespacedName{Name: manifests.AgentNamespace(p.klusterlet)}, current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace of the agents: %w", err)
	}
	// A namespace that is not marked as ours was not made by us.
	if err == nil && current.Labels[operatorv1.LabelKlusterlet] != "" {
		remove = append(remove, *current)
	}
	var errs []error
	for i := range remove {
		if !used[remove[i].Name] && remove[i].DeletionTimestamp.IsZero() {
			errs = append(errs, c.deleteNamespace(ctx, &remove[i]))
		}
	}
	return errors.Join(errs...)
}

// others returns the Klusterlets that stay.
func (c *Controller) others(ctx context.Context, klusterlet *operatorv1.Klusterlet) ([]operatorv1.Klusterlet, error) {
	list := &operatorv1.KlusterletList{}
	if err := c.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Klusterlets: %w", err)
	}
	var others []operatorv1.Klusterlet
	for _, other := range list.Items {
		if other.Name != klusterlet.Name && other.DeletionTimestamp.IsZero() {
			others = append(others, other)
		}
	}
	return others, nil
}
