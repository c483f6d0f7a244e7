// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	decisions "github.com/capstan-io/capstan/internal/binding"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/events"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/created"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/order"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// Deps are what the controller works with.
type Deps struct {
	// Client reads bindings, works and overrides from a cache.
	Client    client.Client
	Templates *templates.Templates
	Objects   templates.Objects
	Fleet     *fleet.Fleet
	Store     store.Bindings
	Chain     interpret.Chain
	Created   *created.Works
	Events    *events.Recorder
	// Hub says whose status is left alone on a shared hub.
	Hub scope.Hub
	// Prioritizes says that spec.schedulePriority orders the bindings that wait.
	Prioritizes bool
	// Announce tells what became of bindings and works; nil tells nothing.
	Announce *announce.Announcer
}

// Controller sends objects to clusters.
type Controller struct {
	Deps

	ranks  *order.Ranks[reconcile.Request]
	stakes *stakes.Stakes
}

// New returns the controller.
func New(d Deps) *Controller {
	return &Controller{Deps: d, ranks: &order.Ranks[reconcile.Request]{}, stakes: &stakes.Stakes{}}
}

// binding is a Binding that the client knows.
type binding = lookup.Binding

// Reconcile chooses the clusters of one binding if that is needed, makes the works
// what they are to be, and sums up what became of the object.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := c.Fleet.Load(ctx, c.Client); err != nil {
		return ctrl.Result{}, err
	}
	b, err := c.read(ctx, req)
	if b == nil || err != nil {
		return ctrl.Result{}, err
	}
	works, err := c.works(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !b.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, c.finish(ctx, b, works)
	}
	if b, _, err = c.Store.Change(ctx, b, b.DeepCopyObject().(binding), ""); err != nil { //nolint:forcetypeassert // it is one
		return ctrl.Result{}, err
	}
	if decisions.Held(b) {
		return ctrl.Result{}, nil // it comes again when it may be decided for it
	}
	key := templates.KeyOf(b.BindingSpec().Resource)
	object, err := c.Objects.Get(ctx, key)
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != b.BindingSpec().Resource.UID {
		return ctrl.Result{}, nil // the binding is about to be deleted
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	sent, err := c.send(ctx, b, object, works)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !sent.settled {
		return ctrl.Result{RequeueAfter: settle}, nil // the cache shows the works by then
	}
	items := sum.Items(sum.Input{Spec: b.BindingSpec(), Works: works, Problems: sent.problems, Fleet: c.Fleet.Snapshot()})
	if err := c.report(ctx, b, items); err != nil {
		return ctrl.Result{}, err
	}
	decider := c.Store.Decider
	return ctrl.Result{RequeueAfter: sooner(sent.again, cmp.Or(decider.Wait(b), decider.ConfirmIn(b, b.BindingStatus())))}, c.reflect(ctx, key, object, items)
}

// sooner returns the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// sent is what came of sending an object.
type sent struct {
	// problems say why clusters do not get the object, by cluster: what is wrong with
	// what their works are made of, or why these could not be written.
	problems map[string]error
	// again is how soon to try again; 0 if there is no need.
	again time.Duration
	// settled says that nothing was written, as all that can be right is.
	settled bool
}

// send makes the works of a binding what they are to be.
func (c *Controller) send(ctx context.Context, b binding, object *unstructured.Unstructured, works []workv1.ManifestWork) (sent, error) {
	wanted, problems, err := c.render(ctx, b, object)
	if err != nil {
		return sent{}, err
	}
	changes, err := deliver.Compare(wanted, works, problems)
	if err != nil {
		return sent{}, fmt.Errorf("comparing the works of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	failed := c.writer().Write(ctx, changes)
	if err := send.Passing(failed); err != nil {
		return sent{}, err
	}
	c.Announce.Tell(announce.Sent{
		Wrote: !changes.None(), Overridden: overridden(wanted), Mistakes: send.Joined(problems), Failed: send.Joined(failed),
	}.Events(b)...)
	result := sent{problems: problems, settled: changes.None() || len(failed) > 0}
	if len(failed) > 0 {
		maps.Copy(result.problems, failed)
		result.again = again
	}
	return result, nil
}

// read returns a binding; nil if there is none, or its name and permanent ID are
// still to be given.
func (c *Controller) read(ctx context.Context, req ctrl.Request) (binding, error) {
	var b binding = &workv1alpha2.ResourceBinding{}
	if req.Namespace == "" {
		b = &workv1alpha2.ClusterResourceBinding{}
	}
	if err := c.Client.Get(ctx, req.NamespacedName, b); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // there is none
		}
		return nil, fmt.Errorf("reading the binding %q: %w", req.NamespacedName, err)
	}
	if deliver.ID(b) == "" {
		return nil, nil //nolint:nilnil // it comes again with its ID
	}
	return b, nil
}

// works returns the works of a binding.
func (c *Controller) works(ctx context.Context, b binding) ([]workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{IndexBinding: deliver.ID(b)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the works of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return list.Items, nil
}

// finish deletes the works of a binding that is being deleted, and lets it go when
// they are gone.
func (c *Controller) finish(ctx context.Context, b binding, works []workv1.ManifestWork) error {
	finalizer := deliver.Finalizer(b)
	if !controllerutil.ContainsFinalizer(b, finalizer) {
		return nil
	}
	if len(works) > 0 {
		return c.cleanUp(ctx, b, works)
	}
	after := b.DeepCopyObject().(binding) //nolint:forcetypeassert // it is one
	controllerutil.RemoveFinalizer(after, finalizer)
	err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting the binding %q go: %w", client.ObjectKeyFromObject(b), err)
	}
	return nil
}

// cleanUp deletes the works of a binding.
func (c *Controller) cleanUp(ctx context.Context, b binding, works []workv1.ManifestWork) error {
	failed := c.writer().Write(ctx, deliver.Changes{Gone: works})
	if err := send.Passing(failed); err != nil {
		return err
	}
	err := send.Joined(failed)
	if err != nil {
		c.Announce.Tell(announce.Alone(b, announce.ReasonCleanupWorkFailed, err.Error()))
	}
	return err
}

// report writes the status of a binding.
func (c *Controller) report(ctx context.Context, b binding, items []workv1alpha2.AggregatedStatusItem) error {
	after := b.DeepCopyObject().(binding) //nolint:forcetypeassert // it is one
	status := after.BindingStatus()
	// The cache has digests of what clusters report.
	if !equality.Semantic.DeepEqual(sum.Digest(status.AggregatedStatus), sum.Digest(items)) {
		status.AggregatedStatus = items
	}
	conditions.Set(&status.Conditions, b.GetGeneration(), sum.FullyApplied(b.BindingSpec(), items))
	if err := conditions.PatchStatus(ctx, c.Client, b, after); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return nil
}

// reflect writes what became of the object in the clusters to its own status,
// unless a controller of a shared hub does that.
func (c *Controller) reflect(ctx context.Context, key templates.Key, object *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) error {
	if c.Hub.Owns(key.Kind.GroupKind()) {
		return nil
	}
	status, ok := c.Chain.Aggregate(object, sum.ForTemplate(items))
	if !ok {
		return nil
	}
	change := sum.Difference(object, status)
	if len(change) == 0 {
		return nil
	}
	if err := client.IgnoreNotFound(c.Objects.SetStatus(ctx, key, object.GetUID(), change)); err != nil {
		c.Events.Eventf(object, nil, corev1.EventTypeWarning, "AggregateStatusFailed", action, "%v", err)
		return err
	}
	return nil
}
