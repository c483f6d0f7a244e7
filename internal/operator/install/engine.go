// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
)

const (
	// conflictRetry is when to begin anew after someone else changed the object
	// during a walk: time for the change to reach the cache.
	conflictRetry = 50 * time.Millisecond
	// dueMin is the shortest time between two walks that phases can ask for.
	dueMin = time.Second
)

// EnginePass is what an operator's phases work on: a struct that embeds a ReconcilePass.
type EnginePass[O client.Object] interface{ Base() *ReconcilePass[O] }

// PhaseEngine walks objects of one kind through phases, and writes what became of
// that into their status.
type PhaseEngine[O client.Object, P EnginePass[O]] struct {
	Client client.Client
	Clock  clock.PassiveClock
	// Upgrade holds OLM back while an object is being changed.
	Upgrade *upgrade.Gate
	// Finalizer is put on before the first effect and taken off after the last
	// removal. Further ones are put on by phases; an object is also removed as long
	// as it has one of these.
	Finalizer string
	Further   []string
	// Install and Remove are the phases.
	Install, Remove []Phase[P]
	Kind            EngineKind[O, P]
}

// EngineKind is what the PhaseEngine has to know of a kind.
type EngineKind[O client.Object, P EnginePass[O]] struct {
	// Name is the kind, for messages.
	Name string
	// Begin makes the state of a walk that embeds the pass.
	Begin func(*ReconcilePass[O]) P
	// Conditions are those in the status of the object.
	Conditions func(O) *[]metav1.Condition
	// Report writes into the status, in memory, how a walk ended; ReportRemoval does
	// so for a removal that is not at its end.
	Report, ReportRemoval func(P, PassOutcome)
	// Announce records events of what an installation changed, after it was written.
	Announce func(P, PassOutcome)
	// Busy says in words why the operator must not be upgraded now; empty if it may be.
	Busy func(O) string
}

// Reconcile installs what the object asks for, or removes it if the object is
// being deleted.
func (e *PhaseEngine[O, P]) Reconcile(ctx context.Context, stored O) (ctrl.Result, error) {
	object := deepcopy.CopyObject(stored)
	walk := e.Kind.Begin(&ReconcilePass[O]{Before: stored, Object: object, start: e.Clock.Now()})
	if e.observePause(object) {
		return e.writeStatusAndRequeue(ctx, walk, PassOutcome{})
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return e.runRemoval(ctx, walk)
	}
	// Before the first effect, so that whatever is installed is also removed.
	err := walk.Base().ChangeMeta(ctx, e.Client, func(o client.Object) bool {
		return controllerutil.AddFinalizer(o, e.Finalizer)
	})
	if err != nil {
		return requeueOnConflict(err)
	}
	outcome := RunPhases(ctx, e.Install, walk)
	if outcome.Result == Outdated {
		return requeueOnConflict(outcome.Err)
	}
	e.Kind.Report(walk, outcome)
	return e.writeStatusAndRequeue(ctx, walk, outcome)
}

// runRemoval walks an object that is being deleted through the removal, and lets it
// go after the last phase.
func (e *PhaseEngine[O, P]) runRemoval(ctx context.Context, walk P) (ctrl.Result, error) {
	pass := walk.Base()
	if !e.hasFinalizer(pass.Object) {
		return ctrl.Result{}, nil
	}
	outcome := RunPhases(ctx, e.Remove, walk)
	switch outcome.Result {
	case Outdated:
		return requeueOnConflict(outcome.Err)
	case Done:
		err := pass.ChangeMeta(ctx, e.Client, e.removeFinalizers)
		if client.IgnoreNotFound(err) != nil {
			return requeueOnConflict(err)
		}
		return ctrl.Result{}, e.Upgrade.ReportBusy(ctx, pass.Object.GetName(), "")
	default:
		e.Kind.ReportRemoval(walk, outcome)
		return e.writeStatusAndRequeue(ctx, walk, outcome)
	}
}

// hasFinalizer reports whether there is anything to be removed for the object.
func (e *PhaseEngine[O, P]) hasFinalizer(object O) bool {
	return slices.ContainsFunc(append([]string{e.Finalizer}, e.Further...), func(finalizer string) bool {
		return controllerutil.ContainsFinalizer(object, finalizer)
	})
}

// removeFinalizers takes all finalizers of the PhaseEngine off.
func (e *PhaseEngine[O, P]) removeFinalizers(object client.Object) bool {
	released := controllerutil.RemoveFinalizer(object, e.Finalizer)
	for _, finalizer := range e.Further {
		released = controllerutil.RemoveFinalizer(object, finalizer) || released
	}
	return released
}

// writeStatusAndRequeue writes the status and says when to walk again.
func (e *PhaseEngine[O, P]) writeStatusAndRequeue(ctx context.Context, walk P, outcome PassOutcome) (ctrl.Result, error) {
	pass := walk.Base()
	name := pass.Object.GetName()
	err := conditions.PatchStatus(ctx, e.Client, pass.Before, pass.Object)
	if apierrors.IsNotFound(err) || isConflictOnly(err) {
		return requeueOnConflict(err)
	}
	if err == nil && pass.Object.GetDeletionTimestamp().IsZero() {
		e.Kind.Announce(walk, outcome)
	}
	if err = errors.Join(err, e.Upgrade.ReportBusy(ctx, name, e.Kind.Busy(pass.Object))); err != nil {
		return ctrl.Result{}, errors.Join(outcome.namedError(e.Kind.Name, name), err)
	}
	switch outcome.Result {
	case Mistake:
		return ctrl.Result{}, reconcile.TerminalError(outcome.Err)
	case Failed:
		return ctrl.Result{}, outcome.namedError(e.Kind.Name, name)
	default:
		return ctrl.Result{RequeueAfter: pass.nextPassAfter(outcome.After)}, nil
	}
}

// requeueOnConflict begins anew after an error that is expected, as it only says that the
// cache is behind: the object is gone, or someone else has changed it.
func requeueOnConflict(err error) (ctrl.Result, error) {
	switch {
	case isConflictOnly(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	default:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
}

// observePause reports whether the user wants everything left as it is, and shows it in
// the status, in memory.
func (e *PhaseEngine[O, P]) observePause(object O) bool {
	// The same for all kinds.
	const condition, reason = operatorv1.ClusterManagerConditionPaused, operatorv1.ClusterManagerReasonPausedByAnnotation
	list := e.Kind.Conditions(object)
	on, err := strconv.ParseBool(object.GetAnnotations()[operatorv1.AnnotationPaused])
	if err != nil || !on {
		meta.RemoveStatusCondition(list, condition)
		return false
	}
	conditions.SetCondition(list, object.GetGeneration(), metav1.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: reason,
		Message: fmt.Sprintf("paused by annotation %s: nothing is reconciled", operatorv1.AnnotationPaused),
	})
	return true
}
