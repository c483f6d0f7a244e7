// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/fleet"
	"github.com/capstan-io/capstan/internal/install/definitions"
)

// workers is how many hubs are worked on at the same time, so that one of mode
// Hosted that does not answer holds up no other.
const workers = 4

// NewScheme returns a scheme with the kinds that the operator works with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, authenticationv1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme,
		admissionv1.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, clusterv1.AddToScheme,
		fleetv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// CacheOptions returns the options of a cache that holds ClusterManagers, what
// we made for them, and the objects by name that we copy or read.
func CacheOptions(o Options) (cache.Options, error) {
	made, err := labels.NewRequirement(operatorv1.LabelCreatedByClusterManager, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting what we made: %w", err)
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*made)}
	named := func(name string) cache.Config {
		return cache.Config{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
	}
	byObject := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{o.Namespace: named(TLSProfile)}},
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			o.Namespace:         named(o.PullSecret),
			cache.AllNamespaces: named(operatorv1.ExternalHubKubeConfigSecret),
		}},
		definitions.Metadata(): ours,
	}
	for _, object := range watchedObjects() {
		byObject[object] = ours
	}
	return cache.Options{ByObject: byObject, DefaultTransform: slim}, nil
}

// slim is the transform of all objects: ClusterConnections cannot have one of
// their own, as a cache asks at its start what it has options for, and it is
// this operator that installs their definition.
func slim(obj any) (any, error) {
	obj, err := cache.TransformStripManagedFields()(obj)
	if err != nil {
		return nil, err
	}
	return fleet.SlimConnection(obj)
}

// watchedObjects are the kinds that are put right again as soon as one changes.
func watchedObjects() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.ServiceAccount{}, &corev1.Service{}, &appsv1.Deployment{},
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&networkingv1.NetworkPolicy{},
		&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{},
	}
}

// Watched are kinds that a replica that leads has to have in its cache to be ready.
func Watched() []client.Object {
	return []client.Object{&operatorv1.ClusterManager{}, &appsv1.Deployment{}}
}

// SetupWithManager starts the controller with the manager, whose cache has to be
// as CacheOptions says.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	changes := predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	)
	b := ctrl.NewControllerManagedBy(mgr).Named(c.Name()).
		For(&operatorv1.ClusterManager{}, builder.WithPredicates(changes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	owner := handler.EnqueueRequestsFromMapFunc(ownerOf)
	for _, object := range watchedObjects() {
		b = b.Watches(object, owner)
	}
	b = b.WatchesMetadata(definitions.Metadata(), owner)
	b = b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.allHubs)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.hubsOfSecret))
	running, err := b.Build(reconcile.AsReconciler(mgr.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting up the controller %s: %w", c.Name(), err)
	}
	c.connections.watch = c.watchConnections(running, mgr.GetCache())
	return nil
}

func ownerOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[operatorv1.LabelCreatedByClusterManager]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// hubsOfSecret returns the hub that the secret leads to, or all for the pull
// secret.
func (c *Controller) hubsOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	if secret.GetName() == operatorv1.ExternalHubKubeConfigSecret {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: secret.GetNamespace()}}}
	}
	return c.allHubs(ctx, secret)
}

// allHubs is for objects that concern every hub.
func (c *Controller) allHubs(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &operatorv1.ClusterManagerList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil // the cache; the next resync makes up for it
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
	return requests
}
