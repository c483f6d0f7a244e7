// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/operator/install/secretcache"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

// changedBuffer is how many changed answers of hubs may wait for the controller.
const changedBuffer = 16

// LoadAgentRules returns the permissions of the agents.
func LoadAgentRules() (manifests.AgentRuleSet, error) {
	var rules manifests.AgentRuleSet
	for component, into := range map[string]*manifests.AgentRules{
		config.RegistrationAgent: &rules.Registration,
		config.WorkAgent:         &rules.Work,
	} {
		cluster, namespaced, err := config.Rules(component)
		if err != nil {
			return manifests.AgentRuleSet{}, err
		}
		into.Cluster = cluster
		into.Home = namespaced
	}
	return rules, nil
}

// NewKlusterletScheme returns a scheme with the kinds that the operator works with.
func NewKlusterletScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// SetupKlusterletOperator adds the operator to the manager: the controller of Klusterlets and the
// one that asks their hubs. The manager's client has to have the options of the
// permissions. The signal is for OLM, and nil without it.
func SetupKlusterletOperator(mgr ctrl.Manager, settings OperatorSettings, allowed *permissions.PermissionSet, signal upgrade.Signal) error {
	rules, err := LoadAgentRules()
	if err != nil {
		return err
	}
	names := []string{operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret, operatorv1.HubKubeConfigPendingSecret, operatorv1.ExternalManagedKubeConfigSecret}
	names = append(names, memberSecretNames()...)
	if settings.PullSecret != "" {
		names = append(names, settings.PullSecret)
	}
	caches, err := secretcache.NewSecretCaches(mgr, slices.DeleteFunc(names, func(name string) bool { return !allowed.MayWatchSecret(name) })...)
	if err != nil {
		return err
	}
	secrets := secretReader{SecretCaches: caches, live: mgr.GetAPIReader()}
	results := hubprobe.NewResultStore()
	changed := make(chan event.TypedGenericEvent[*operatorv1.Klusterlet], changedBuffer)
	c := NewKlusterletController(ControllerDeps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Secrets: secrets,
		Results: results, Rules: rules, Settings: settings, Clock: clock.RealClock{},
		Events: events.NewRecorder(mgr.GetEventRecorder(FieldOwner)).WithLogger(mgr.GetLogger()), Upgrade: signal, Permissions: allowed,
	})
	if err := mgr.Add(allowed.NewRoleWatcher(mgr.GetClient())); err != nil {
		return fmt.Errorf("watching over the role of the operator: %w", err)
	}
	sources, err := c.secretSources(caches)
	if err != nil {
		return err
	}
	answers := source.Channel(changed, &handler.TypedEnqueueRequestForObject[*operatorv1.Klusterlet]{})
	if err := metrics.RegisterCollectors(settings.Metrics, install.ConditionMetric("Klusterlet", klusterletConditions(mgr.GetClient()))); err != nil {
		return err
	}
	if err := c.SetupWithManager(mgr, append(sources, answers)...); err != nil {
		return fmt.Errorf("setting up the controller of Klusterlets: %w", err)
	}
	probe := hubprobe.NewHubProbeController(hubprobe.ControllerDeps{
		Client: mgr.GetClient(), Secrets: secrets, Prober: probe.Prober{},
		Results: results, Clock: clock.RealClock{}, Changed: changed,
	})
	triggers, err := c.hubProbeTriggers(mgr, caches)
	if err != nil {
		return err
	}
	if err := probe.SetupWithManager(mgr, triggers...); err != nil {
		return fmt.Errorf("setting up the controller that asks hubs: %w", err)
	}
	return nil
}

// klusterletConditions returns what lists the conditions of all Klusterlets.
func klusterletConditions(reader client.Reader) func(context.Context) ([][]metav1.Condition, error) {
	return install.ListConditions(reader, func() *operatorv1.KlusterletList { return &operatorv1.KlusterletList{} },
		func(list *operatorv1.KlusterletList) (all [][]metav1.Condition) {
			for i := range list.Items {
				all = append(all, list.Items[i].Status.Conditions)
			}
			return all
		})
}

// secretReader reads secrets from their caches, and those that the operator may
// not watch from the API server.
type secretReader struct {
	*secretcache.SecretCaches
	live client.Reader
}

// Get reads a secret.
func (r secretReader) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	if slices.Contains(r.SecretNames(), key.Name) {
		return r.SecretCaches.Get(ctx, key, into, options...)
	}
	return r.live.Get(ctx, key, into, options...)
}

// secretSources are the secrets that the controller of Klusterlets acts on.
func (c *Controller) secretSources(secrets *secretcache.SecretCaches) ([]source.Source, error) {
	var list []source.Source
	for _, name := range secrets.SecretNames() {
		to := c.requestsInNamespace
		if name == c.Settings.PullSecret {
			to = c.requestsForAll
		}
		s, err := secrets.SecretSource(name, func(ctx context.Context, secret *corev1.Secret) []reconcile.Request { return to(ctx, secret) })
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// hubProbeTriggers are what makes a hub be asked at once: a change of a credential, or
// of the step of the handshake that the agent reports.
func (c *Controller) hubProbeTriggers(mgr ctrl.Manager, secrets *secretcache.SecretCaches) ([]source.Source, error) {
	var list []source.Source
	if c.Permissions.MayWatchKind(&corev1.ConfigMap{}) {
		list = append(list, source.Kind[client.Object](mgr.GetCache(), &corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.requestsInNamespace)))
	}
	for _, name := range []string{operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret} {
		if !c.Permissions.MayWatchSecret(name) {
			continue
		}
		s, err := secrets.SecretSource(name, func(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
			return c.requestsInNamespace(ctx, secret)
		})
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// workers is how many Klusterlets are worked on at the same time, so that a
// managed cluster that does not answer holds up its own Klusterlet only.
const workers = 4

// SetupWithManager adds the controller to the manager. It sees by watch
// whatever it acts on and may watch: one watch that is forbidden would keep it
// from starting. The further sources are those of secrets and of what the hub
// answers.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, sources ...source.Source) error {
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
	ours := handler.EnqueueRequestsFromMapFunc(c.requestsForOwner)
	b := ctrl.NewControllerManagedBy(mgr).Named("klusterlet").
		For(&operatorv1.Klusterlet{}, builder.WithPredicates(changed)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if definition := definitions.DefinitionMetadata(); c.Permissions.MayWatchKind(definition) {
		b = b.WatchesMetadata(definition, handler.EnqueueRequestsFromMapFunc(c.requestsForAll),
			builder.WithPredicates(predicate.NewPredicateFuncs(installedByUs)))
	}
	for kind, to := range map[client.Object]handler.EventHandler{
		&corev1.Namespace{}:  handler.EnqueueRequestsFromMapFunc(c.requestsForNamespace),
		&corev1.ConfigMap{}:  handler.EnqueueRequestsFromMapFunc(c.requestsInNamespace),
		&appsv1.Deployment{}: ours, &corev1.Pod{}: ours, &corev1.ServiceAccount{}: ours, &networkingv1.NetworkPolicy{}: ours,
		&rbacv1.ClusterRole{}: ours, &rbacv1.ClusterRoleBinding{}: ours, &rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours,
	} {
		if c.Permissions.MayWatchKind(kind) {
			b = b.Watches(kind, to)
		}
	}
	for _, further := range sources {
		b = b.WatchesRawSource(further)
	}
	return b.Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

func installedByUs(definition client.Object) bool {
	return definition.GetAnnotations()[operatorv1.AnnotationCRDVersion] != ""
}

// requestsForOwner returns the Klusterlet that an object was made for, or all if it was
// made for all of them.
func (c *Controller) requestsForOwner(ctx context.Context, object client.Object) []reconcile.Request {
	name, ok := object.GetLabels()[operatorv1.LabelCreatedByKlusterlet]
	switch {
	case !ok:
		return nil
	case name == "":
		return c.requestsForAll(ctx, object)
	default:
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
}

// requestsForNamespace returns the Klusterlet that a namespace was made for; all
// have to do with those of add-ons.
func (c *Controller) requestsForNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	if name := namespace.GetLabels()[operatorv1.LabelKlusterlet]; name != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	if namespace.GetLabels()[operatorv1.LabelAddOnNamespace] == "true" {
		return c.requestsForAll(ctx, namespace)
	}
	return nil
}

// requestsInNamespace returns the Klusterlets with agents in the namespace of
// the object.
func (c *Controller) requestsInNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return listKlusterletRequests(ctx, c.Client, func(klusterlet *operatorv1.Klusterlet) bool {
		return manifests.AgentNamespace(klusterlet) == object.GetNamespace()
	})
}

func (c *Controller) requestsForAll(ctx context.Context, _ client.Object) []reconcile.Request {
	return listKlusterletRequests(ctx, c.Client, func(*operatorv1.Klusterlet) bool { return true })
}

func listKlusterletRequests(ctx context.Context, reader client.Reader, match func(*operatorv1.Klusterlet) bool) []reconcile.Request {
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

// OperatorWatchedKinds are kinds that a replica that leads has to have in its cache to be ready.
func OperatorWatchedKinds() []client.Object {
	return []client.Object{&operatorv1.Klusterlet{}, &appsv1.Deployment{}}
}

// OperatorCacheOptions limit the cache of the operator to what it has to do with, so
// that it does not grow with the cluster.
func OperatorCacheOptions() (cache.Options, error) {
	ours, err := labels.NewRequirement(operatorv1.LabelCreatedByKlusterlet, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("making the selector of our objects: %w", err)
	}
	marked := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:          marked,
			&corev1.Pod{}:                 marked,
			&corev1.ServiceAccount{}:      marked,
			&rbacv1.ClusterRole{}:         marked,
			&rbacv1.ClusterRoleBinding{}:  marked,
			&rbacv1.Role{}:                marked,
			&rbacv1.RoleBinding{}:         marked,
			&networkingv1.NetworkPolicy{}: marked,
			&corev1.ConfigMap{}: {
				Field: fields.OneTermEqualSelector("metadata.name", operatorv1.JoinStatusConfigMap),
			},
		},
	}, nil
}
