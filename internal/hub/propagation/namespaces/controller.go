// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces sends the namespaces of the hub to the clusters that get an
// object in them. A namespace stays in a cluster when the last object has gone
// from there: it may hold what is not ours.
package namespaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/conflict"
	"github.com/capstan-io/capstan/internal/hub/propagation/claims"
	"github.com/capstan-io/capstan/internal/hub/propagation/created"
	"github.com/capstan-io/capstan/internal/hub/propagation/deliver"
)

// labelNamespace is on the works of namespaces; its value is the name of the
// namespace.
const labelNamespace = "fleet.capstan.io/namespace"

// Controller sends namespaces to clusters.
type Controller struct {
	client  client.Client
	created *created.Works
}

// New returns the controller. The client reads from a cache.
func New(c client.Client, works *created.Works) *Controller {
	return &Controller{client: c, created: works}
}

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("namespace").
		Watches(&workv1alpha2.ResourceBinding{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}}
		})).
		Watches(&corev1.Namespace{}, &handler.EnqueueRequestForObject{}).
		Watches(&workv1.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			name := object.GetLabels()[labelNamespace]
			if name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
		})).
		Complete(conflict.Quiet(c))
}

// Reconcile sends one namespace to the clusters that need it.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if claims.ReservedNamespace(req.Name) || req.Name == "" {
		return ctrl.Result{}, nil
	}
	works := &workv1.ManifestWorkList{}
	if err := c.client.List(ctx, works, client.MatchingLabels{labelNamespace: req.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the works of namespace %q: %w", req.Name, err)
	}
	namespace := &corev1.Namespace{}
	err := c.client.Get(ctx, req.NamespacedName, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, c.remove(ctx, works.Items)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading namespace %q: %w", req.Name, err)
	case !namespace.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // it comes again when it is gone
	}
	clusters, err := c.clusters(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	for i := range works.Items {
		delete(clusters, works.Items[i].Namespace)
	}
	for cluster := range clusters {
		if err := c.create(ctx, namespace, cluster); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// clusters returns the clusters that get an object in the namespace.
func (c *Controller) clusters(ctx context.Context, namespace string) (map[string]bool, error) {
	bindings := &workv1alpha2.ResourceBindingList{}
	if err := c.client.List(ctx, bindings, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the bindings of namespace %q: %w", namespace, err)
	}
	clusters := map[string]bool{}
	for i := range bindings.Items {
		for _, target := range deliver.Targets(&bindings.Items[i].Spec) {
			clusters[target.Name] = true
		}
	}
	return clusters, nil
}

// create creates the work of a namespace for a cluster. The namespace is the
// cluster's if it is there already, and stays when the work goes.
func (c *Controller) create(ctx context.Context, namespace *corev1.Namespace, cluster string) error {
	raw, err := deliver.NamespaceManifest(namespace)
	if err != nil {
		return err
	}
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: deliver.WorkName("Namespace", "", namespace.Name), Labels: map[string]string{labelNamespace: namespace.Name},
			Finalizers: []string{workv1.FinalizerManifestWorkCleanup},
		},
		Spec: workv1.ManifestWorkSpec{
			Workload:     workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}},
			DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan},
		},
	}
	key := client.ObjectKeyFromObject(work)
	if !c.created.Begin(key) {
		return nil
	}
	if err := c.client.Create(ctx, work); err != nil {
		c.created.Forget(key)
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache shows it soon
		}
		return fmt.Errorf("creating the work of namespace %q for cluster %q: %w", namespace.Name, cluster, err)
	}
	return nil
}

// remove deletes the works of a namespace that is gone.
func (c *Controller) remove(ctx context.Context, works []workv1.ManifestWork) error {
	for i := range works {
		if !works[i].DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.client.Delete(ctx, works[i].DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting ManifestWork %q: %w", client.ObjectKeyFromObject(&works[i]), err)
		}
	}
	return nil
}
