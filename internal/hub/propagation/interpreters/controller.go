// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret/users"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// ChangeListeners are who is told of a kind of which something else is said.
type ChangeListeners struct {
	// Template is told of each object of the kind.
	Template func(templates.Key)
	// Binding is told of each binding of such an object.
	Binding func(types.NamespacedName)
}

// InterpreterController keeps KnownInterpreters up to date.
type InterpreterController struct {
	client    client.Client
	known     *KnownInterpreters
	templates *templates.Templates
	told      ChangeListeners
	// untold are the changes that were taken in, and of which not all bindings were told.
	untold users.KindChanges
}

// NewInterpreterController returns the controller.
func NewInterpreterController(c client.Client, known *KnownInterpreters, templates *templates.Templates, told ChangeListeners) *InterpreterController {
	return &InterpreterController{client: c, known: known, templates: templates, told: told}
}

// SetupWithManager adds the controller to the manager.
func (c *InterpreterController) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(c.known.calls); err != nil {
		return fmt.Errorf("adding the calls of webhooks: %w", err)
	}
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("customization").
		For(&configv1alpha1.ResourceInterpreterCustomization{}, changed).
		Watches(&configv1alpha1.ResourceInterpreterWebhookConfiguration{}, &handler.EnqueueRequestForObject{}, changed).
		Complete(conflict.RequeueConflicts(c))
}

// Reconcile reads all customizations and webhooks, as they count together, and has the objects
// looked at of the kinds of which something else is said now.
func (c *InterpreterController) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	changed, err := c.known.Refresh(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	changed = c.untold.MergeChanges(changed)
	if changed.IsEmpty() {
		return ctrl.Result{}, nil
	}
	c.untold = changed // to the next attempt, everything is as before
	for _, kind := range c.templates.Kinds() {
		if !changed.Has(kind) {
			continue
		}
		keys, _ := c.templates.Find([]selector.SearchScope{{Kind: kind}}, func(*metav1.PartialObjectMetadata) bool { return true })
		for _, key := range keys {
			c.told.Template(key)
		}
	}
	if err := c.notifyBindings(ctx, changed); err != nil {
		return ctrl.Result{}, err
	}
	c.untold = users.KindChanges{}
	return ctrl.Result{}, nil
}

func (c *InterpreterController) notifyBindings(ctx context.Context, changed users.KindChanges) error {
	some := &workv1alpha2.ResourceBindingList{}
	all := &workv1alpha2.ClusterResourceBindingList{}
	for _, list := range []client.ObjectList{some, all} {
		if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing bindings: %w", err)
		}
	}
	tell := func(b client.Object, of workv1alpha2.ObjectReference) {
		if changed.Has(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)) {
			c.told.Binding(client.ObjectKeyFromObject(b))
		}
	}
	for i := range some.Items {
		tell(&some.Items[i], some.Items[i].Spec.Resource)
	}
	for i := range all.Items {
		tell(&all.Items[i], all.Items[i].Spec.Resource)
	}
	return nil
}
