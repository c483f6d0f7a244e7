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

// waitError ends a walk through the cleanup that has to go on later.
type waitError struct {
	after time.Duration
	// why is for the status; it is left as it is if this is empty.
	why string
}

func (e waitError) Error() string { return "waiting: " + e.why }

// onMember leaves a phase of the cleanup out if nothing is to be removed from the
// cluster that the agents work on.
func onMember(phase func(context.Context, *pass) error) func(context.Context, *pass) error {
	return func(ctx context.Context, p *pass) error {
		if p.member == nil {
			return nil
		}
		return phase(ctx, p)
	}
}

// finalize removes what was installed for the Klusterlet, without any contact
// to its hub. The ManagedCluster on the hub is the hub's administrator's.
func (c *Controller) finalize(ctx context.Context, p *pass) (ctrl.Result, error) {
	if released(p.klusterlet) {
		return ctrl.Result{}, nil
	}
	for _, phase := range c.cleanup {
		err := phase.run(ctx, p)
		var wait waitError
		if errors.As(err, &wait) {
			if wait.why != "" {
				p.failed(phase.reason, wait.why)
			}
			return ctrl.Result{RequeueAfter: wait.after}, nil
		}
		if err != nil {
			p.failed(phase.reason, fmt.Sprintf("removing the %s failed: %v", phase.name, err))
			return ctrl.Result{}, err
		}
	}
	err := c.changeMeta(ctx, p, func(k *operatorv1.Klusterlet) bool {
		return controllerutil.RemoveFinalizer(k, operatorv1.FinalizerKlusterletCleanup)
	})
	if apierrors.IsNotFound(err) {
		controllerutil.RemoveFinalizer(p.klusterlet, operatorv1.FinalizerKlusterletCleanup)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// failed sets the condition Applied of a removal that does not go on.
func (p *pass) failed(reason, message string) {
	p.set(metav1.Condition{
		Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

// released tells whether the Klusterlet has no finalizer of ours any more, so its
// status must not be written.
func released(klusterlet *operatorv1.Klusterlet) bool {
	return !klusterlet.DeletionTimestamp.IsZero() &&
		!controllerutil.ContainsFinalizer(klusterlet, operatorv1.FinalizerKlusterletCleanup) &&
		!controllerutil.ContainsFinalizer(klusterlet, operatorv1.FinalizerKlusterletHostedCleanup)
}

// removeAgents deletes the Deployments and waits for their pods to end.
func (c *Controller) removeAgents(ctx context.Context, p *pass) error {
	marks := manifests.Marks(p.klusterlet)
	_, err := c.home.applier.Prune(ctx, render.Scope{
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
		return waitError{after: podsGonePoll}
	}
	return nil
}

// removeAppliedWorks deletes the AppliedManifestWorks of this Klusterlet's agent
// and takes off the finalizer that the agent would, so that garbage collection
// removes the objects that they own. Those of other agents stay.
func (c *Controller) removeAppliedWorks(ctx context.Context, p *pass) error {
	works := &workv1.AppliedManifestWorkList{}
	err := p.member.live.List(ctx, works)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // the kind was never installed
	}
	if err != nil {
		return fmt.Errorf("listing AppliedManifestWorks: %w", err)
	}
	var errs []error
	for i := range works.Items {
		if work := &works.Items[i]; work.Spec.AgentID == string(p.klusterlet.UID) {
			errs = append(errs, p.member.removeAppliedWork(ctx, work))
		}
	}
	return errors.Join(errs...)
}

func (m *site) removeAppliedWork(ctx context.Context, work *workv1.AppliedManifestWork) error {
	// Deleted before the finalizer is off: an operator that stops in between
	// must not leave a work without a finalizer that is not being deleted.
	if work.DeletionTimestamp.IsZero() {
		err := m.client.Delete(ctx, work, client.Preconditions{UID: &work.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting AppliedManifestWork %q: %w", work.Name, err)
		}
	}
	before := work.DeepCopy()
	if !controllerutil.RemoveFinalizer(work, workv1.FinalizerAppliedManifestWorkCleanup) {
		return nil
	}
	err := m.client.Patch(ctx, work, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of AppliedManifestWork %q: %w", work.Name, err)
	}
	return nil
}

// removeAccess deletes the roles and accounts with the marks of the Klusterlet
// where its agents work.
func (c *Controller) removeAccess(ctx context.Context, p *pass) error {
	_, err := p.member.applier.Prune(ctx, render.Scope{
		Kinds: []schema.GroupVersionKind{
			rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
			rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
			corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		},
		Labels: manifests.Marks(p.klusterlet),
	}, nil)
	return err
}

// removeHomeAccess deletes whatever has the marks of the Klusterlet where its
// agents run.
func (c *Controller) removeHomeAccess(ctx context.Context, p *pass) error {
	_, err := c.home.applier.Prune(ctx, render.Scope{
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

// removeNamespaces deletes the namespaces on the member of the agents or their
// accounts, with what is in them, unless another Klusterlet has its own there.
func (c *Controller) removeNamespaces(ctx context.Context, p *pass) error {
	remove, err := p.member.oldNamespaces(ctx, p.klusterlet)
	if err != nil {
		return err
	}
	current, err := p.member.ownNamespace(ctx, manifests.MemberNamespace(p.klusterlet))
	if err != nil {
		return err
	}
	return c.deleteUnused(ctx, p, p.member, append(remove, current...))
}

// removeHomeNamespace deletes that of hosted agents on the management cluster.
func (c *Controller) removeHomeNamespace(ctx context.Context, p *pass) error {
	namespace, err := c.home.ownNamespace(ctx, p.klusterlet.Name)
	if err != nil || len(namespace) == 0 || namespace[0].Labels[operatorv1.LabelKlusterlet] != p.klusterlet.Name {
		return err
	}
	return c.deleteUnused(ctx, p, c.home, namespace)
}

// ownNamespace returns the namespace if it is marked as made by us.
func (m *site) ownNamespace(ctx context.Context, name string) ([]corev1.Namespace, error) {
	namespace := corev1.Namespace{}
	err := m.client.Get(ctx, types.NamespacedName{Name: name}, &namespace)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the namespace %q of agents: %w", name, err)
	}
	if namespace.Labels[operatorv1.LabelKlusterlet] == "" { // or there is none
		return nil, nil
	}
	return []corev1.Namespace{namespace}, nil
}

// deleteUnused deletes the namespaces that no other Klusterlet needs.
func (c *Controller) deleteUnused(ctx context.Context, p *pass, where *site, namespaces []corev1.Namespace) error {
	used, err := c.usedByOthers(ctx, p, where)
	if err != nil {
		return err
	}
	var errs []error
	for i := range namespaces {
		if !used[namespaces[i].Name] && namespaces[i].DeletionTimestamp.IsZero() {
			errs = append(errs, where.deleteNamespace(ctx, &namespaces[i]))
		}
	}
	return errors.Join(errs...)
}

// usedByOthers returns the namespaces on the site of other Klusterlets' agents,
// or of their accounts, whatever cluster their operator runs on.
func (c *Controller) usedByOthers(ctx context.Context, p *pass, where *site) (map[string]bool, error) {
	used := map[string]bool{c.Settings.Namespace: true}
	accounts := &corev1.ServiceAccountList{}
	if err := where.live.List(ctx, accounts, client.HasLabels{operatorv1.LabelCreatedByKlusterlet}); err != nil {
		return nil, fmt.Errorf("listing the accounts of agents: %w", err)
	}
	for i := range accounts.Items {
		if accounts.Items[i].Labels[operatorv1.LabelCreatedByKlusterlet] != p.klusterlet.Name {
			used[accounts.Items[i].Namespace] = true
		}
	}
	if where != c.home {
		return used, nil
	}
	others, err := c.others(ctx, p.klusterlet)
	for i := range others {
		used[manifests.AgentNamespace(&others[i])] = true
	}
	return used, err
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
