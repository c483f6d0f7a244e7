// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/created"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/interpreters"
	"github.com/capstan-io/capstan/internal/hub/propagation/latest"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	decisions "github.com/capstan-io/capstan/internal/scheduling/binding"
)

// Deps are what the controller works with.
type Deps struct {
	// Client reads bindings and overrides from a cache, and Live from the API
	// server. Latest has the bindings that were written and that the cache may not show
	// yet, which Client reads then.
	Client client.Client
	Live   client.Reader
	Latest *latest.Bindings
	// Works finds works in the cache.
	Works Works
	// Allowance bounds what the works of the bindings of a namespace take up.
	Allowance *allowance.Allowance
	Templates *templates.Templates
	// Discovery tells which kinds the hub serves.
	Discovery discovery.ServerResourcesInterface
	Objects   templates.Objects
	Fleet     *fleet.Fleet
	Store     store.Bindings
	// Stages keep changes from clusters whose turn has not come.
	Stages *staging.Stages
	Chain  interpret.Chain
	// Interpreters are the customizations in Chain, which have to be loaded.
	Interpreters *interpreters.Known
	Created      *created.Works
	Restless     *send.Restless
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

// Controller sends objects to clusters.
type Controller struct {
	Deps

	ending ending
	ranks  *order.Ranks[reconcile.Request]
	stakes *stakes.Stakes
	// policies are the changes of those that override.
	policies *inbox.Changes[reconcile.Request]
}

// New returns the controller.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, ending: ending{d}, ranks: &order.Ranks[reconcile.Request]{}, stakes: &stakes.Stakes{}}
	c.policies = inbox.NewChanges(c.follow)
	return c
}

// binding is a Binding that the client knows.
type binding = lookup.Binding

// Reconcile chooses the clusters of one binding if that is needed, makes the works
// what they are to be, and sums up what became of the object.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer c.Stages.Turns.Looked(req.NamespacedName)
	ctx, end := c.Objects.Memory.Begin(ctx, req.Namespace)
	defer end()
	result, err := c.look(ctx, req)
	if errors.Is(err, turns.ErrWait) {
		return ctrl.Result{}, nil // it comes again when it is its turn
	}
	return result, err
}

func (c *Controller) look(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if c.Store.Unfinished(req.NamespacedName) {
		return ctrl.Result{}, nil // it comes again when its status says what was decided
	}
	if err := errors.Join(c.Fleet.Load(ctx, c.Live), c.Interpreters.Load(ctx), c.Stages.Load(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	if !c.Works.counted() {
		return ctrl.Result{RequeueAfter: settle}, nil
	}
	b, err := read(ctx, c.Client, req.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		failed := c.Stages.Gone(ctx, req.NamespacedName)
		again, err := c.ending.abandoned(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: again}, errors.Join(failed, err)
	case err != nil:
		return ctrl.Result{}, err
	case deliver.ID(b) == "":
		c.Stages.Looked(req.NamespacedName)
		return ctrl.Result{}, nil // it comes again with its ID
	}
	works, earlier, err := c.works(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !b.GetDeletionTimestamp().IsZero() {
		return c.ending.finish(ctx, b, works)
	}
	if decisions.Held(b) {
		c.Stages.Looked(req.NamespacedName)
		return ctrl.Result{}, nil // it comes again when it may be decided for it
	}
	key := templates.KeyOf(b.BindingSpec().Resource)
	object, err := c.object(ctx, key, b)
	if object == nil { // nothing is decided either, or what never runs would take the room of others
		return ctrl.Result{}, without(c.Stages, req.NamespacedName, err)
	}
	if b, _, err = c.Store.Change(ctx, b, withFinalizer(b), ""); err != nil {
		return ctrl.Result{}, err
	}
	sent, err := c.send(ctx, b, object, present{works, earlier})
	if err != nil {
		return ctrl.Result{}, err
	}
	if !sent.settled {
		return ctrl.Result{RequeueAfter: settle}, nil // the cache shows the works by then
	}
	items := sum.Items(sum.Input{Spec: b.BindingSpec(), Works: works, Problems: sent.problems, Fleet: c.Fleet.Snapshot()})
	reflected := c.reflect(ctx, key, object, items)
	leaving, untilLeaving := sum.Leaving(object, c.Clock.Now())
	if err := c.report(ctx, b, items, sent.limited, reflected.refusal, leaving); err != nil {
		return ctrl.Result{}, errors.Join(err, reflected.failed)
	}
	decider := c.Store.Decider
	wait := sooner(sooner(sooner(sent.again, reflected.again), untilLeaving), cmp.Or(decider.Wait(b), decider.ConfirmIn(b, b.BindingStatus())))
	return ctrl.Result{RequeueAfter: wait}, reflected.failed
}

// withFinalizer returns a copy of a binding that has the finalizer which keeps it until its works
// are gone: whoever created or changed it may have left that out.
func withFinalizer(b binding) binding {
	after := b.DeepCopyObject().(binding) //nolint:forcetypeassert // it is one
	controllerutil.AddFinalizer(after, deliver.Finalizer(b))
	return after
}

// sooner returns the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// object returns the object of a binding; nil if it is gone, and the binding about
// to be deleted, or if it is not for the binding to send.
func (c Deps) object(ctx context.Context, key templates.Key, b binding) (*unstructured.Unstructured, error) {
	if key.Name.Namespace != b.GetNamespace() || c.reserved(key, &metav1.ObjectMeta{Namespace: key.Name.Namespace, Name: key.Name.Name}) {
		return nil, nil //nolint:nilnil // somebody has written the binding, to be sent what is not his
	}
	known, _ := c.Templates.Get(key)
	object, err := c.Objects.Since(ctx, key, known)
	if apierrors.IsNotFound(err) || err == nil && (object.GetUID() != b.BindingSpec().Resource.UID || c.reserved(key, object)) {
		return nil, nil //nolint:nilnil // documented
	}
	return object, err
}

// reserved tells whether an object is never sent to clusters.
func (c Deps) reserved(key templates.Key, object metav1.Object) bool {
	return claims.Reserved(key.Kind.GroupKind(), object, c.Fleet.Snapshot()) != ""
}

// without says that a binding sends nothing, as its object is not there or cannot be
// read; the error says why.
func without(stages *staging.Stages, name types.NamespacedName, err error) error {
	if err == nil || barred(err) {
		stages.Looked(name)
	}
	return err
}

// barred tells whether an object cannot be read however often it is tried. Any
// other failure says nothing of what became of the object in the clusters.
func barred(err error) bool { return apierrors.IsForbidden(err) || meta.IsNoMatchError(err) }

// read returns a binding.
func read(ctx context.Context, reader client.Reader, name types.NamespacedName) (binding, error) {
	b := empty(name)
	if err := reader.Get(ctx, name, b); err != nil {
		return nil, fmt.Errorf("reading the binding %q: %w", name, err)
	}
	return b, nil
}

// report writes the status of a binding. The remarks are what there is to say about the
// object besides what clusters say, each "" if there is nothing.
func (c *Controller) report(ctx context.Context, b binding, items []workv1alpha2.AggregatedStatusItem, held allowance.Held, remarks ...string) error {
	after := b.DeepCopyObject().(binding) //nolint:forcetypeassert // it is one
	status := after.BindingStatus()
	// The cache has digests of what clusters report.
	if !equality.Semantic.DeepEqual(sum.Digest(status.AggregatedStatus), sum.Digest(items)) {
		status.AggregatedStatus = items
	}
	applied := limited(sum.FullyApplied(b.BindingSpec(), items), held)
	for _, remark := range remarks {
		applied.Message = strings.TrimSpace(applied.Message + " " + remark)
	}
	conditions.Set(&status.Conditions, b.GetGeneration(), applied)
	if err := conditions.PatchStatus(ctx, c.Client, b, after); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	if was := meta.FindStatusCondition(b.BindingStatus().Conditions, applied.Type); held.Lasts() && (was == nil || was.Reason != applied.Reason) {
		c.Events.Eventf(b, nil, corev1.EventTypeWarning, applied.Reason, action, "%s", applied.Message)
	}
	return nil
}

// limited has a condition say what is held back, if anything is.
func limited(condition metav1.Condition, held allowance.Held) metav1.Condition {
	if held.Any() {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, string(held.Reason), held.Message()
	}
	return condition
}
