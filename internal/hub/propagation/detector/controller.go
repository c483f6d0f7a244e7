// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/interpreters"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// Deps are what the controller works with.
type Deps struct {
	// Client reads policies, overrides and bindings from a cache, and Live from the
	// API server.
	Client    client.Client
	Live      client.Reader
	Templates *templates.Templates
	Objects   templates.Objects
	Fleet     *fleet.Fleet
	Store     store.Bindings
	Chain     interpret.Chain
	// Interpreters are the customizations in Chain, which have to be loaded.
	Interpreters *interpreters.Known
	Clock        clock.Clock
	Events       *events.Recorder
	// Refusals counts the claims that the hub refuses.
	Refusals *prometheus.CounterVec
	// Touched is told of a binding whose object has changed in something that the
	// binding does not say.
	Touched func(types.NamespacedName)
	// Changed has an object looked at by another key.
	Changed func(templates.Key)
	// Hub says what is left alone on a shared hub.
	Hub scope.Hub
	// Preempts says that policies may take objects over from others, and Prioritizes
	// that they may ask to be looked at first.
	Preempts, Prioritizes bool
	// Groups says that policies may keep workloads together, or apart.
	Groups bool
	// Components says that objects with several pod templates are placed as a whole.
	Components bool
}

// Controller finds policies for the objects of the hub.
type Controller struct {
	Deps

	binder   binder
	chooser  chooser
	refusals refusals
	asking   *asking
	// ranks are how important objects are, as far as ranking has found out.
	ranks   *order.Ranks[templates.Key]
	ranking *inbox.AsideKeys[templates.Key]
	bound   *bound
	// policies are the changes of policies.
	policies *inbox.Changes[templates.Key]
}

// New returns the controller.
func New(d Deps) *Controller {
	c := &Controller{
		Deps: d, binder: binder{d}, chooser: chooser{d, &claims.Selections{}}, refusals: refusals{d.Objects, d.Events, d.Refusals},
		asking: &asking{}, ranks: &order.Ranks[templates.Key]{}, bound: newBound(d.Templates.Use),
	}
	c.ranking = inbox.NewAsideKeys(namespaceOf, c.raiseRank)
	c.policies = inbox.NewChanges(c.follow)
	return c
}

// Reconcile finds the policy for one object, lets it claim the object, and makes
// the binding say what both ask for.
func (c *Controller) Reconcile(ctx context.Context, key templates.Key) (ctrl.Result, error) {
	ctx, end := c.Objects.Memory.Begin(ctx, key.Name.Namespace)
	defer end()
	versions := c.chooser.versions(key.Kind)
	if key.Kind != versions[0] { // or else one object would be looked at twice at a time
		c.Changed(templates.Key{Kind: versions[0], Name: key.Name})
		return ctrl.Result{}, nil
	}
	if err := errors.Join(c.Fleet.Load(ctx, c.Live), c.Interpreters.Load(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	template, known := c.Templates.Get(key)
	switch {
	case !known:
		return ctrl.Result{}, nil // it comes again when its kind has been listed
	case template == nil:
		return ctrl.Result{}, c.gone(ctx, key)
	}
	bindings, err := lookup.Find(ctx, c.Client, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !template.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.leave(ctx, key, versions, template, bindings.Of(template.UID))
	}
	if claims.Reserved(key.Kind.GroupKind(), template, c.Fleet.Snapshot()) != "" {
		return ctrl.Result{}, c.withdraw(ctx, key, template, bindings)
	}
	if stale := bindings.Except(template.UID); len(stale) > 0 {
		return ctrl.Result{}, c.renewed(ctx, key, template.UID, stale)
	}
	policy, of, err := c.chooser.choose(ctx, key, versions, template, claims.Holder(template, bindings.Of(template.UID)))
	if err != nil {
		return ctrl.Result{}, err
	}
	key.Kind, template = versions[of], as(template, versions[of])
	served, err := c.served(ctx, template, policy)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case policy == nil, !served:
		return ctrl.Result{}, c.release(ctx, key, template, bindings.Of(template.UID))
	case claims.ID(policy) == "":
		return ctrl.Result{}, nil // it comes again when the policy has an ID
	default:
		return c.propagate(ctx, key, template, policy, bindings)
	}
}

// propagate lets a policy claim an object, and makes the binding say what both ask
// for.
func (c *Controller) propagate(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy, bindings lookup.Bindings,
) (ctrl.Result, error) {
	if waits, err := c.waits(ctx, policy, template); waits || err != nil {
		return ctrl.Result{}, err
	}
	if postponed, err := c.postpone(ctx, key, template, policy, bindings.Of(template.UID)); postponed || err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	object, err := c.claim(ctx, key, template, policy, "")
	if err == nil && object == nil {
		object, err = c.Objects.Since(ctx, key, template)
	}
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != template.UID {
		return ctrl.Result{}, nil // it comes again as its watch tells that
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return c.binder.bind(ctx, key, object, policy, bindings)
}

// waits reports whether the policy cannot be applied yet: OverridePolicies that it
// depends on are missing, and bring the object back when they come, or are too many.
func (d Deps) waits(ctx context.Context, policy policyv1alpha1.Policy, template *metav1.PartialObjectMetadata) (bool, error) {
	if wrong := claims.CheckDependentOverrides(policy.PropagationSpec(), field.NewPath("spec")); len(wrong) > 0 {
		d.Events.Eventf(template, policy, corev1.EventTypeWarning, claims.EventFailed, action, "policy %q is not applied: %s", policy.GetName(), wrong.ToAggregate())
		return true, nil
	}
	for _, name := range policy.PropagationSpec().DependentOverrides {
		var override client.Object = &policyv1alpha1.ClusterOverridePolicy{}
		if policy.GetNamespace() != "" {
			override = &policyv1alpha1.OverridePolicy{}
		}
		err := d.Client.Get(ctx, types.NamespacedName{Namespace: policy.GetNamespace(), Name: name}, override)
		if apierrors.IsNotFound(err) {
			override.SetNamespace(policy.GetNamespace())
			override.SetName(name)
			d.Events.Eventf(template, override, corev1.EventTypeWarning, claims.EventFailed, action,
				"policy %q waits for override policy %q (spec.dependentOverrides), which does not exist: create it", policy.GetName(), name)
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading override policy %q: %w", name, err)
		}
	}
	return false, nil
}

// claim writes the marks of the policy to the object, and how it was when it began
// to wait for a change, if it does. It returns the object as it is then; nil if it
// has them. Of a role or the binding of one its binding alone has them if the hub
// refuses: it lets nobody change what gives rights that he does not have. Other refusals
// are told.
func (c *Controller) claim(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy, seen string,
) (*unstructured.Unstructured, error) {
	labels, annotations := claims.Of(policy).Change(template)
	note(annotations, template, seen)
	if len(labels)+len(annotations) == 0 {
		return nil, nil //nolint:nilnil // there was nothing to write
	}
	from, err := c.preempted(ctx, key, template, policy)
	if err != nil {
		return nil, err
	}
	object, err := c.Objects.Mark(ctx, key, template.UID, labels, annotations)
	c.tellPreemption(template, from, policy, err)
	if unmarkable(key, err) {
		return nil, nil //nolint:nilnil // it stays as it is
	}
	if err != nil {
		return nil, c.refusals.tell(ctx, key, template, policy, err)
	}
	return object, nil
}

// unmarkable tells whether the hub has refused to let an object be marked because
// of the rights that it gives. Of the binding of a role that is not there it says that it
// is not found: about the role, and in words that could be about the binding.
func unmarkable(key templates.Key, err error) bool {
	binding := strings.HasSuffix(key.Kind.Kind, "Binding")
	return key.Kind.Group == rbacv1.GroupName && (apierrors.IsForbidden(err) || binding && apierrors.IsNotFound(err))
}

// release takes the marks of policies off an object that none matches any more,
// and off its binding. What is in the clusters stays, and follows the object in all
// but its replicas, whose clusters nobody chooses any more. The binding is the last, as
// its marks bring the object back if we are stopped in between.
func (c *Controller) release(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, present lookup.Binding) error {
	if err := c.unclaim(ctx, key, template); err != nil {
		return err
	}
	if present == nil {
		return nil
	}
	if demand.Bound(present) { // or else who needs it tells
		c.Touched(client.ObjectKeyFromObject(present))
	}
	return c.binder.unmark(ctx, present)
}

// leave releases an object that is being deleted from the policy that has claimed it, if
// that does not select it any more: it may keep its finalizers for ever, and must not keep
// the policy from being deleted. Its binding tells of the finalizers. All else is done when
// it is gone, and it comes again then.
func (c *Controller) leave(
	ctx context.Context, key templates.Key, versions []schema.GroupVersionKind, template *metav1.PartialObjectMetadata, present lookup.Binding,
) error {
	if present != nil {
		c.Touched(client.ObjectKeyFromObject(present))
	}
	holder := claims.Holder(template, present)
	if !claims.Claimed(holder) {
		return nil
	}
	policy, _, err := c.chooser.choose(ctx, key, versions, template, holder)
	if err != nil || policy != nil && claims.Claims(policy, holder) {
		return err
	}
	return c.release(ctx, key, template, present)
}

// unclaim takes the marks of policies off an object, if it is there.
func (c *Controller) unclaim(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata) error {
	labels, annotations := (claims.Marks{}).Change(template)
	note(annotations, template, "")
	if len(labels)+len(annotations) == 0 {
		return nil
	}
	_, err := c.Objects.Mark(ctx, key, template.UID, labels, annotations)
	if err == nil || unmarkable(key, err) {
		return nil
	}
	reason, err := c.refusals.judge(ctx, key, template, err)
	if reason == "" {
		return client.IgnoreNotFound(err)
	}
	return fmt.Errorf("the hub refuses to take the marks of a policy off the object (%s): %w", reason, err)
}

// withdraw ends what was sent of an object that is reserved: its namespace has become
// that of a cluster, or a release that knew less has sent it.
func (c *Controller) withdraw(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, bindings lookup.Bindings) error {
	return errors.Join(c.unclaim(ctx, key, template), c.binder.remove(ctx, bindings.Own...))
}

// renewed deletes the bindings of earlier objects of the name. It comes again when
// they are gone, which those that are being deleted hear they may be.
func (c *Controller) renewed(ctx context.Context, key templates.Key, uid types.UID, stale []lookup.Binding) error {
	object, err := c.Objects.Get(ctx, key)
	if err != nil || object.GetUID() != uid {
		return client.IgnoreNotFound(err) // it comes again as its watch tells more
	}
	for _, b := range stale {
		c.Touched(client.ObjectKeyFromObject(b))
	}
	return c.binder.remove(ctx, stale...)
}

// gone deletes the bindings of an object that does not exist any more. What goes
// with them is removed from the clusters, so it is asked for once more. If there is
// no binding, there may be works of one that was lost.
func (c *Controller) gone(ctx context.Context, key templates.Key) error {
	bindings, err := lookup.Find(ctx, c.Client, key)
	if err != nil {
		return err
	}
	if len(bindings.Own) == 0 {
		for _, name := range lookup.Names(key) {
			c.Touched(name)
		}
		return nil
	}
	switch _, err := c.Objects.Get(ctx, key); {
	case err == nil:
		return nil // it comes again as its watch tells more
	case !apierrors.IsNotFound(err):
		c.Templates.Ask(key) // its kind may go
		return err
	}
	return c.binder.remove(ctx, bindings.Own...)
}

// tell records an event on an object of the hub. Client-go counts events of one reason about
// the same objects as one, with the note of the first: one about something that is missing
// is related to that, as the next may be about something else.
func (d Deps) tell(object client.Object, eventType, reason, note string, args ...any) {
	d.Events.Eventf(object, nil, eventType, reason, action, note, args...)
}

const (
	// action is what events say that the controller was about.
	action                       = "Propagate"
	reasonApplyPolicySucceeded   = "ApplyPolicySucceed"
	reasonPreemptPolicySucceeded = "PreemptPolicySucceed"
	reasonPreemptPolicyFailed    = "PreemptPolicyFailed"
	reasonGetReplicasFailed      = "GetReplicasFailed"
	reasonGetComponentsFailed    = "GetComponentsFailed"
)
