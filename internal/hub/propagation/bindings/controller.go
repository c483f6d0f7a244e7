// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/interpreters"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	decisions "github.com/capstan-io/capstan/internal/scheduling/binding"
)

// BindingControllerDeps are what the controller works with.
type BindingControllerDeps struct {
	// Client reads bindings and overrides from a cache, and Live from the API
	// server. Written has the bindings that were written and that the cache may not show
	// yet, which Client reads then.
	Client  client.Client
	Live    client.Reader
	Written *ownwrites.WrittenBindings
	// Works finds works in the cache.
	Works WorkIndex
	// Allowance bounds what the works of the bindings of a namespace take up.
	Allowance *allowance.Allowance
	Templates *templates.Templates
	// Discovery tells which kinds the hub serves.
	Discovery discovery.ServerResourcesInterface
	Objects   templates.HubObjects
	Fleet     *fleet.Fleet
	Store     store.BindingStore
	// Stages keep changes from clusters whose turn has not come.
	Stages *staging.Stages
	Chain  interpret.Chain
	// Interpreters are the customizations in Chain, which have to be loaded.
	Interpreters *interpreters.KnownInterpreters
	Created      *ownwrites.CreatedWorks
	Restless     *send.RestlessWorks
	Events       *events.Recorder
	// Hub says whose status is left alone on a shared hub.
	Hub scope.Hub
	// Prioritizes says that spec.schedulePriority orders the bindings that wait.
	Prioritizes bool
	// Announce tells what became of bindings and works; nil tells nothing.
	Announce *announce.Announcer
	// Clock tells how long clusters have kept what they are to lose.
	Clock clock.PassiveClock
	// Reserved is told of a namespace that has become that of a cluster, or is not any
	// more.
	Reserved func(namespace string)
}

// BindingController sends objects to clusters.
type BindingController struct {
	BindingControllerDeps

	ending bindingFinalizer
	ranks  *order.Ranks[reconcile.Request]
	stakes *stakes.Stakes
	// policies are the changes of those that override.
	policies *inbox.ChangeQueue[reconcile.Request]
}

// NewBindingController returns the controller.
func NewBindingController(d BindingControllerDeps) *BindingController {
	c := &BindingController{BindingControllerDeps: d, ending: bindingFinalizer{d}, ranks: &order.Ranks[reconcile.Request]{}, stakes: &stakes.Stakes{}}
	c.policies = inbox.NewChangeQueue(c.enqueueOverridden)
	return c
}

// binding is a Binding that the client knows.
type binding = lookup.Binding

// Reconcile chooses the clusters of one binding if that is needed, makes the works
// what they are to be, and sums up what became of the object.
func (c *BindingController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer c.Stages.Turns.MarkLooked(req.NamespacedName)
	ctx, end := c.Objects.Memory.BeginReservation(ctx, req.Namespace)
	defer end()
	result, err := c.reconcileBinding(ctx, req)
	if errors.Is(err, turns.ErrWait) {
		return ctrl.Result{}, nil // it comes again when it is its turn
	}
	return result, err
}

// reconcileBinding says what there is to do for a binding: what is not sent at all is dealt with here,
// and all else is a pass, phase by phase.
func (c *BindingController) reconcileBinding(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if c.Store.IsUnfinished(req.NamespacedName) {
		return ctrl.Result{}, nil // it comes again when its status says what was decided
	}
	if err := errors.Join(c.Fleet.LoadClusters(ctx, c.Live), c.Interpreters.EnsureLoaded(ctx), c.Stages.LoadRollouts(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	if !c.Works.counted() {
		return ctrl.Result{RequeueAfter: settle}, nil
	}
	b, err := readBinding(ctx, c.Client, req.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		failed := c.Stages.ForgetBinding(ctx, req.NamespacedName)
		again, err := c.ending.deleteAbandonedWorks(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: again}, errors.Join(failed, err)
	case err != nil:
		return ctrl.Result{}, err
	case deliver.PermanentBindingID(b) == "":
		c.Stages.MarkNothingSent(req.NamespacedName)
		return ctrl.Result{}, nil // it comes again with its ID
	}
	works, earlier, err := c.listWorks(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !b.GetDeletionTimestamp().IsZero() {
		return c.ending.finalizeBinding(ctx, b, works)
	}
	if decisions.ClustersOnHold(b) {
		c.Stages.MarkNothingSent(req.NamespacedName)
		return ctrl.Result{}, nil // it comes again when it may be decided for it
	}
	key := templates.KeyOf(b.BindingSpec().Resource)
	object, err := c.readBindingObject(ctx, key, b)
	if object == nil { // nothing is decided either, or what never runs would take the room of others
		return ctrl.Result{}, markWithoutObject(c.Stages, req.NamespacedName, err)
	}
	pass := &bindingPass{by: c, binding: b, key: key, object: object, works: presentWorks{works, earlier}}
	return pass.runPhases(ctx)
}

// readBindingObject returns the object of a binding; nil if it is gone, and the binding about
// to be deleted, or if it is not for the binding to send.
func (c BindingControllerDeps) readBindingObject(ctx context.Context, key templates.Key, b binding) (*unstructured.Unstructured, error) {
	if key.Name.Namespace != b.GetNamespace() || c.isReservedObject(key, &metav1.ObjectMeta{Namespace: key.Name.Namespace, Name: key.Name.Name}) {
		return nil, nil //nolint:nilnil // somebody has written the binding, to be sent what is not his
	}
	known, _ := c.Templates.Get(key)
	object, err := c.Objects.GetSince(ctx, key, known)
	if apierrors.IsNotFound(err) || err == nil && (object.GetUID() != b.BindingSpec().Resource.UID || c.isReservedObject(key, object)) {
		return nil, nil //nolint:nilnil // documented
	}
	return object, err
}

// isReservedObject reports whether an object is never sent to clusters.
func (c BindingControllerDeps) isReservedObject(key templates.Key, object metav1.Object) bool {
	return claims.ReservedReason(key.Kind.GroupKind(), object, c.Fleet.Snapshot()) != ""
}

// markWithoutObject says that a binding sends nothing, as its object is not there or cannot be
// read; the error says why.
func markWithoutObject(stages *staging.Stages, name types.NamespacedName, err error) error {
	if err == nil || isUnreadable(err) {
		stages.MarkNothingSent(name)
	}
	return err
}

// isUnreadable reports whether an object cannot be read however often it is tried. Any
// other failure says nothing of what became of the object in the clusters.
func isUnreadable(err error) bool { return apierrors.IsForbidden(err) || meta.IsNoMatchError(err) }

// readBinding returns a binding.
func readBinding(ctx context.Context, reader client.Reader, name types.NamespacedName) (binding, error) {
	b := emptyBinding(name)
	if err := reader.Get(ctx, name, b); err != nil {
		return nil, fmt.Errorf("reading the binding %q: %w", name, err)
	}
	return b, nil
}
