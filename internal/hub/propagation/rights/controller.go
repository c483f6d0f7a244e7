// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames="open-cluster-management:cluster-manager-propagation:templates",verbs=get;list;watch;update;escalate

// ReasonKindReserved is the reason of the event about a policy that selects a
// kind whose objects are never sent to clusters.
const ReasonKindReserved = "KindReserved"

// action is what events say that the controller was about.
const action = "Propagate"

const (
	// unservedMin and unservedMax bound the time between two looks for the resources
	// of kinds that the hub does not serve.
	unservedMin = 500 * time.Millisecond
	unservedMax = 10 * time.Second
	// kindsTold is how many kinds are named that the hub does not serve: policies of
	// tenants may have any number of them.
	kindsTold = 10
	// boundCheck is how often it is looked whether bindings are gone of which no policy
	// selects the kind any more.
	boundCheck = 30 * time.Second
)

// TemplateRoleController keeps the ClusterRole. It works on that one object, so that one
// worker is enough and nothing here is locked.
type TemplateRoleController struct {
	client client.Client
	mapper meta.RESTMapper
	events *events.Recorder

	// told is of which kinds it was said about a policy that they are reserved.
	told map[types.UID]string
	// unserved are the kinds without a resource, looks how often they were looked for.
	unserved string
	looks    int
}

// NewTemplateRoleController returns a controller. It does nothing until it is set up with a manager, or
// its Reconcile is called.
func NewTemplateRoleController(c client.Client, mapper meta.RESTMapper, recorder *events.Recorder) *TemplateRoleController {
	return &TemplateRoleController{client: c, mapper: mapper, events: recorder, told: map[types.UID]string{}}
}

// ControllerName of the controller.
func (c *TemplateRoleController) ControllerName() string { return "propagation-rights" }

// SetupWithManager adds the controller to the manager.
func (c *TemplateRoleController) SetupWithManager(mgr ctrl.Manager) error {
	role := reconcile.Request{NamespacedName: types.NamespacedName{Name: fleetv1alpha1.PropagationTemplatesRole}}
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{role} })
	err := ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&rbacv1.ClusterRole{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
			return object.GetName() == role.Name
		}))).
		Watches(&policyv1alpha1.PropagationPolicy{}, enqueue, changed).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, enqueue, changed).
		Watches(&workv1alpha2.ResourceBinding{}, enqueue, builder.WithPredicates(predicate.NewPredicateFuncs(refersElsewhere))).
		Complete(conflict.RequeueConflicts(c))
	if err != nil {
		return fmt.Errorf("setting up the controller %s: %w", c.ControllerName(), err)
	}
	return nil
}

// Reconcile brings the rules of the ClusterRole to what policies need.
func (c *TemplateRoleController) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	kinds, err := c.selectedKinds(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	role := &rbacv1.ClusterRole{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.PropagationTemplatesRole}, role); err != nil {
		// The operator makes it, and then it is back here.
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	found, after := c.resolveResources(ctx, kinds, role.Rules)
	bound, err := c.boundResources(ctx, found, role.Rules)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(bound.Templates)+len(bound.Dependencies) > 0 && (after == 0 || after > boundCheck) {
		after = boundCheck
	}
	result := reconcile.Result{RequeueAfter: after}
	rules := RulesForResources(found.union(bound))
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return result, nil
	}
	wanted := role.DeepCopy()
	wanted.Rules = rules
	if err := c.client.Update(ctx, wanted); err != nil {
		return reconcile.Result{}, fmt.Errorf("changing the rules of ClusterRole %q: %w", role.Name, err)
	}
	return result, nil
}

// selectedKinds returns what all policies need, and tells of each that selects what it
// cannot have.
func (c *TemplateRoleController) selectedKinds(ctx context.Context) (Kinds, error) {
	kinds := newKinds()
	alive := sets.New[types.UID]()
	look := func(policy client.Object, spec policyv1alpha1.PropagationSpec) {
		alive.Insert(policy.GetUID())
		c.warnReservedKinds(policy, kinds.addPolicy(spec))
	}
	policies := &policyv1alpha1.PropagationPolicyList{}
	if err := c.client.List(ctx, policies, client.UnsafeDisableDeepCopy); err != nil {
		return Kinds{}, fmt.Errorf("listing PropagationPolicies: %w", err)
	}
	for i := range policies.Items {
		look(&policies.Items[i], policies.Items[i].Spec)
	}
	clusterPolicies := &policyv1alpha1.ClusterPropagationPolicyList{}
	if err := c.client.List(ctx, clusterPolicies, client.UnsafeDisableDeepCopy); err != nil {
		return Kinds{}, fmt.Errorf("listing ClusterPropagationPolicies: %w", err)
	}
	for i := range clusterPolicies.Items {
		look(&clusterPolicies.Items[i], clusterPolicies.Items[i].Spec)
	}
	if err := c.addReferredKinds(ctx, kinds); err != nil {
		return Kinds{}, err
	}
	maps.DeleteFunc(c.told, func(policy types.UID, _ string) bool { return !alive.Has(policy) })
	return kinds, nil
}

// refersElsewhere reports whether a binding says that its object refers to kinds that
// only a customization can know. Few do.
func refersElsewhere(object client.Object) bool {
	b, is := object.(*workv1alpha2.ResourceBinding)
	return is && len(unforeseenKinds(b)) > 0
}

// addReferredKinds adds what bindings say that their objects refer to.
func (c *TemplateRoleController) addReferredKinds(ctx context.Context, kinds Kinds) error {
	if len(kinds.along) == 0 {
		return nil
	}
	bindings := &workv1alpha2.ResourceBindingList{}
	if err := c.client.List(ctx, bindings, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ResourceBindings: %w", err)
	}
	for i := range bindings.Items {
		kinds.addBindingReferences(&bindings.Items[i])
	}
	return nil
}

// warnReservedKinds records an event about the kinds that a policy cannot select, once.
func (c *TemplateRoleController) warnReservedKinds(policy client.Object, refused string) {
	if refused == c.told[policy.GetUID()] {
		return
	}
	if refused == "" {
		delete(c.told, policy.GetUID())
		return
	}
	c.told[policy.GetUID()] = refused
	c.events.Eventf(policy, nil, corev1.EventTypeWarning, ReasonKindReserved, action,
		"objects of these kinds are never sent to clusters; remove them from resourceSelectors: %s; %s", refused, claims.InsteadOfPolicy)
}

// resolveResources returns the resources of kinds, and when to look again for those that
// have none. What is granted for a group of which nobody can tell now stays
// granted.
func (c *TemplateRoleController) resolveResources(ctx context.Context, of Kinds, rules []rbacv1.PolicyRule) (found Resources, after time.Duration) {
	found = newResources()
	unserved := map[string]error{}
	unknown := sets.New[string]()
	find := func(kinds sets.Set[schema.GroupVersionKind], into sets.Set[schema.GroupResource]) {
		for kind := range kinds {
			mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err == nil {
				into.Insert(mapping.Resource.GroupResource())
				continue
			}
			unserved[kind.String()] = err
			if !meta.IsNoMatchError(err) {
				unknown.Insert(kind.Group)
			}
		}
	}
	find(of.Templates, found.Templates)
	find(of.Dependencies, found.Dependencies)
	held := granted(rules).filterResources(func(resource schema.GroupResource) bool { return unknown.Has(resource.Group) })
	return found.union(held), c.lookAgain(ctx, unserved)
}

// boundResources returns the resources that no policy needs any more and that rules are for,
// as long as bindings are about objects of them: claims have to be taken off these,
// and what was sent goes when they do.
func (c *TemplateRoleController) boundResources(ctx context.Context, found Resources, rules []rbacv1.PolicyRule) (Resources, error) {
	left := granted(rules).filterResources(func(resource schema.GroupResource) bool {
		return !found.Templates.Has(resource) && !found.Dependencies.Has(resource)
	})
	if len(left.Templates)+len(left.Dependencies) == 0 {
		return left, nil
	}
	kinds := sets.New[schema.GroupVersionKind]()
	own := &workv1alpha2.ResourceBindingList{}
	wide := &workv1alpha2.ClusterResourceBindingList{}
	for _, list := range []client.ObjectList{own, wide} {
		if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return Resources{}, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range own.Items {
		kinds.Insert(bindingKind(&own.Items[i]))
	}
	for i := range wide.Items {
		kinds.Insert(bindingKind(&wide.Items[i]))
	}
	resources := sets.New[schema.GroupResource]()
	for kind := range kinds {
		if mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version); err == nil { // what is not served needs no rights
			resources.Insert(mapping.Resource.GroupResource())
		}
	}
	return left.filterResources(resources.Has), nil
}

// lookAgain is when to look again for the resources of kinds: soon after it is
// known which ones are missing, and then ever more rarely.
func (c *TemplateRoleController) lookAgain(ctx context.Context, unserved map[string]error) time.Duration {
	if len(unserved) == 0 {
		c.unserved = ""
		c.looks = 0
		return 0
	}
	names := slices.Sorted(maps.Keys(unserved))
	if some := describeKinds(names); some != c.unserved {
		c.unserved = some
		c.looks = 0
		log.FromContext(ctx).Info("Policies need kinds that the API server does not serve", "kinds", some, "problem", events.ShortenNote(unserved[names[0]].Error()))
	}
	c.looks++
	return backoff.DelayAfter(c.looks, backoff.ExponentialBetween(unservedMin, unservedMax))
}

// describeKinds names some of the kinds, and says how many more there are. It is no longer than
// the note of an event.
func describeKinds(names []string) string {
	more := ""
	if rest := len(names) - kindsTold; rest > 0 {
		names, more = names[:kindsTold], fmt.Sprintf("; and %d more", rest)
	}
	return events.ShortenNote(strings.Join(names, "; ")) + more
}
