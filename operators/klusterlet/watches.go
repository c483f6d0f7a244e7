// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// workers is how many Klusterlets are worked on at the same time, so that a
// managed cluster that does not answer holds up its own Klusterlet only.
const workers = 4

// SetupWithManager adds the controller to the manager. It sees by watch
// whatever it acts on; the further sources are those of secrets and of what
// the hub answers.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, sources ...source.Source) error {
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	ours := handler.EnqueueRequestsFromMapFunc(c.owners)
	b := ctrl.NewControllerManagedBy(mgr).Named("klusterlet").
		For(&operatorv1.Klusterlet{}, builder.WithPredicates(changed)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(c.ownersOfNamespace)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.ownersOfNamespaced)).
		WatchesMetadata(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(c.all),
			builder.WithPredicates(predicate.NewPredicateFuncs(installedByUs)))
	for _, kind := range []client.Object{
		&appsv1.Deployment{}, &corev1.Pod{}, &corev1.ServiceAccount{}, &networkingv1.NetworkPolicy{},
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		b = b.Watches(kind, ours)
	}
	for _, further := range sources {
		b = b.WatchesRawSource(further)
	}
	return b.Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

func installedByUs(definition client.Object) bool {
	return definition.GetAnnotations()[operatorv1.AnnotationCRDVersion] != ""
}

// owners returns the Klusterlet that an object was made for, or all if it was
// made for all of them.
func (c *Controller) owners(ctx context.Context, object client.Object) []reconcile.Request {
	name, ok := object.GetLabels()[operatorv1.LabelCreatedByKlusterlet]
	switch {
	case !ok:
		return nil
	case name == "":
		return c.all(ctx, object)
	default:
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
}

// ownersOfNamespace returns the Klusterlet that a namespace was made for; all
// have to do with those of add-ons.
func (c *Controller) ownersOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	if name := namespace.GetLabels()[operatorv1.LabelKlusterlet]; name != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	if namespace.GetLabels()[operatorv1.LabelAddOnNamespace] == "true" {
		return c.all(ctx, namespace)
	}
	return nil
}

// ownersOfNamespaced returns the Klusterlets with agents in the namespace of
// the object.
func (c *Controller) ownersOfNamespaced(ctx context.Context, object client.Object) []reconcile.Request {
	return requests(ctx, c.Client, func(klusterlet *operatorv1.Klusterlet) bool {
		return manifests.AgentNamespace(klusterlet) == object.GetNamespace()
	})
}

func (c *Controller) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return requests(ctx, c.Client, func(*operatorv1.Klusterlet) bool { return true })
}

func requests(ctx context.Context, reader client.Reader, match func(*operatorv1.Klusterlet) bool) []reconcile.Request {
	list := &operatorv1.KlusterletList{}
	if err := reader.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "Klusterlets cannot be listed, so an event is lost")
		return nil
	}
	var found []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return found
}
