// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// workers is how many hubs are worked on at the same time, so that one of mode
// Hosted that does not answer holds up no other.
const workers = 4

// NewClusterManagerScheme returns a scheme with the kinds that the operator works with.
func NewClusterManagerScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		admissionv1.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, clusterv1.AddToScheme,
		fleetv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// OperatorCacheOptions returns the options of a cache that holds ClusterManagers, what
// we made for them, and the objects by name that we copy or read.
func OperatorCacheOptions(o OperatorOptions) (cache.Options, error) {
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
		definitions.DefinitionMetadata(): ours,
	}
	for _, kind := range installedResources() {
		byObject[kind.object] = ours
	}
	return cache.Options{ByObject: byObject, DefaultTransform: slimCachedObject}, nil
}

// slimCachedObject is the transform of all objects: ClusterConnections cannot have one of
// their own, as a cache asks at its start what it has options for, and it is
// this operator that installs their definition.
func slimCachedObject(obj any) (any, error) {
	obj, err := cache.TransformStripManagedFields()(obj)
	if err != nil {
		return nil, err
	}
	return fleet.SlimConnection(obj)
}

// OperatorWatchedKinds are kinds that a replica that leads has to have in its cache to be
// ready. Whether it may watch others is for the ClusterManagers to tell.
func OperatorWatchedKinds() []client.Object { return []client.Object{&operatorv1.ClusterManager{}} }

// SetupWithManager starts the controller with the manager, whose cache has to be
// as OperatorCacheOptions says. Only ClusterManagers are watched from the start: what
// else is watched is up to the rights of the operator.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	changes := predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	)
	running, err := ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&operatorv1.ClusterManager{}, builder.WithPredicates(changes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Build(reconcile.AsReconciler(mgr.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting up the controller %s: %w", c.ControllerName(), err)
	}
	if err := metrics.RegisterCollectors(c.Metrics, c.expiries, install.ConditionMetric("ClusterManager", clusterManagerConditions(mgr.GetClient()))); err != nil {
		return err
	}
	if err := running.Watch(c.arrivals); err != nil {
		return fmt.Errorf("setting up the watches of hubs for the controller %s: %w", c.ControllerName(), err)
	}
	c.watches.AddWatches(c.watchesOf(running, mgr.GetCache())...)
	c.connections.AddWatches(c.watchConnections(running, mgr.GetCache()))
	return nil
}

// clusterManagerConditions returns what lists the conditions of all hubs.
func clusterManagerConditions(reader client.Reader) func(context.Context) ([][]metav1.Condition, error) {
	return install.ListConditions(reader, func() *operatorv1.ClusterManagerList { return &operatorv1.ClusterManagerList{} },
		func(list *operatorv1.ClusterManagerList) (all [][]metav1.Condition) {
			for i := range list.Items {
				all = append(all, list.Items[i].Status.Conditions)
			}
			return all
		})
}

func requestsForOwner(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[operatorv1.LabelCreatedByClusterManager]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// requestsForSecret returns the hub that the secret leads to, or all for the pull
// secret.
func (c *Controller) requestsForSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	if secret.GetName() == operatorv1.ExternalHubKubeConfigSecret {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: secret.GetNamespace()}}}
	}
	return c.requestsForAll(ctx, secret)
}

// requestsForAll is for objects that concern every hub.
func (c *Controller) requestsForAll(ctx context.Context, _ client.Object) []reconcile.Request {
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

// watchedResource is a kind of objects.
type watchedResource struct {
	object      client.Object
	group, name string
}

// installedResources are the kinds that are put right again as soon as an object
// that we made changes.
func installedResources() []watchedResource {
	return []watchedResource{
		{&corev1.Namespace{}, corev1.GroupName, "namespaces"},
		{&corev1.ServiceAccount{}, corev1.GroupName, "serviceaccounts"},
		{&corev1.Service{}, corev1.GroupName, "services"},
		{&appsv1.Deployment{}, appsv1.GroupName, "deployments"},
		{&rbacv1.ClusterRole{}, rbacv1.GroupName, "clusterroles"},
		{&rbacv1.ClusterRoleBinding{}, rbacv1.GroupName, "clusterrolebindings"},
		{&rbacv1.Role{}, rbacv1.GroupName, "roles"},
		{&rbacv1.RoleBinding{}, rbacv1.GroupName, "rolebindings"},
		{&networkingv1.NetworkPolicy{}, networkingv1.GroupName, "networkpolicies"},
		{&policyv1.PodDisruptionBudget{}, policyv1.GroupName, "poddisruptionbudgets"},
		{&admissionv1.MutatingWebhookConfiguration{}, admissionv1.GroupName, "mutatingwebhookconfigurations"},
		{&admissionv1.ValidatingWebhookConfiguration{}, admissionv1.GroupName, "validatingwebhookconfigurations"},
	}
}

// isOptionalResource reports whether a hub can do without objects of the kind.
func isOptionalResource(kind watchedResource) bool {
	return kind.name == "networkpolicies" || kind.name == "poddisruptionbudgets"
}

// watchesOf returns the watches of a controller, but for that of
// ClusterConnections.
func (c *Controller) watchesOf(running controller.TypedController[reconcile.Request], from cache.Cache) []*install.KindWatch {
	begin := func(object client.Object, requests handler.MapFunc) func() error {
		return func() error {
			return running.Watch(source.Kind(from, object, handler.EnqueueRequestsFromMapFunc(requests)))
		}
	}
	secrets := []string{operatorv1.ExternalHubKubeConfigSecret}
	if c.Options.PullSecret != "" {
		secrets = append(secrets, c.Options.PullSecret)
	}
	list := []*install.KindWatch{
		{Needs: install.ListAndWatch(apiextensionsv1.GroupName, "customresourcedefinitions"), Begin: begin(definitions.DefinitionMetadata(), requestsForOwner)},
		{Needs: install.ListAndWatch(corev1.GroupName, "configmaps", TLSProfile), Begin: begin(&corev1.ConfigMap{}, c.requestsForAll)},
		{
			Needs: install.ListAndWatch(corev1.GroupName, "secrets", secrets...),
			Begin: begin(&corev1.Secret{}, c.requestsForSecret),
		},
	}
	for _, kind := range installedResources() {
		list = append(list, &install.KindWatch{
			Needs: install.ListAndWatch(kind.group, kind.name), Optional: isOptionalResource(kind), Begin: begin(kind.object, requestsForOwner),
		})
	}
	return list
}

// watchConnections makes all hubs be looked at when a Push cluster comes or goes.
func (c *Controller) watchConnections(running controller.TypedController[reconcile.Request], from cache.Cache) *install.KindWatch {
	all := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, object *fleetv1alpha1.ClusterConnection) []reconcile.Request {
		return c.requestsForAll(ctx, object)
	})
	begin := func() error {
		return running.Watch(source.Kind(from, &fleetv1alpha1.ClusterConnection{}, all,
			predicate.TypedFuncs[*fleetv1alpha1.ClusterConnection]{
				CreateFunc: func(e event.TypedCreateEvent[*fleetv1alpha1.ClusterConnection]) bool { return isPush(e.Object) },
				DeleteFunc: func(e event.TypedDeleteEvent[*fleetv1alpha1.ClusterConnection]) bool { return isPush(e.Object) },
				UpdateFunc: func(e event.TypedUpdateEvent[*fleetv1alpha1.ClusterConnection]) bool {
					return isPush(e.ObjectOld) != isPush(e.ObjectNew)
				},
			}))
	}
	return &install.KindWatch{Needs: install.ListAndWatch(fleetv1alpha1.GroupName, "clusterconnections"), Begin: begin}
}
