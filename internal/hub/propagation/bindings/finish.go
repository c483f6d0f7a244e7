// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// bindingFinalizer brings to an end what was sent for bindings that are deleted.
type bindingFinalizer struct{ BindingControllerDeps }

// finalizeBinding deletes the works of a binding that is being deleted, and lets it go when they
// are gone; or at once, if they stay, or if another binding is to have its name, which
// sends to the others whatever a cluster keeps. The works do not depend on finalizers: those
// of others may keep the binding, and somebody may have taken off the one that awaits this.
func (c bindingFinalizer) finalizeBinding(ctx context.Context, b binding, works []workv1.ManifestWork) (ctrl.Result, error) {
	if err := c.Stages.ForgetBinding(ctx, client.ObjectKeyFromObject(b)); err != nil {
		return ctrl.Result{}, err
	}
	stays := false
	if slices.ContainsFunc(works, isAliveWork) {
		var err error
		if stays, err = c.keepsWorks(ctx, b); err != nil {
			return ctrl.Result{}, err
		}
	}
	var kept error
	switch {
	case stays:
	case len(works) > 0:
		var held allowance.HeldWorks
		if held, kept = c.deleteWorks(ctx, b, works); c.hasSuccessor(b) {
			break // whoever has the name next deletes what is left
		}
		again, err := c.writeKeptStatus(ctx, b, works, held)
		return ctrl.Result{RequeueAfter: again}, errors.Join(kept, err)
	case c.Created.IsAwaited(deliver.NameOfWorks(b)):
		return ctrl.Result{RequeueAfter: settle}, nil // the cache shows them by then
	}
	return ctrl.Result{}, errors.Join(kept, c.removeFinalizer(ctx, b))
}

// removeFinalizer takes its finalizer off a binding that is being deleted, if it has it.
func (c bindingFinalizer) removeFinalizer(ctx context.Context, b binding) error {
	after := deepcopy.CopyObject(b)
	if !controllerutil.RemoveFinalizer(after, deliver.BindingFinalizer(b)) {
		return nil // finalizers of others keep it
	}
	err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting the binding %q go: %w", client.ObjectKeyFromObject(b), err)
	}
	return nil
}

// writeKeptStatus writes to the status of a binding that is being deleted what waits for its turn, and which
// clusters have not let go for a while of what they were sent: it cannot go before. It returns how soon
// there may be more to do or to tell.
func (c bindingFinalizer) writeKeptStatus(ctx context.Context, b binding, works []workv1.ManifestWork, held allowance.HeldWorks) (again time.Duration, err error) {
	kept, again := sum.KeptCondition(works, c.Clock.Now())
	if held.AnyHeld() {
		waits := limitedCondition(metav1.Condition{Type: workv1alpha2.BindingConditionFullyApplied}, held)
		if kept != nil {
			waits.Message += " " + kept.Message
		}
		kept, again = &waits, shorterWait(again, held.Again)
	}
	name := client.ObjectKeyFromObject(b)
	if slices.ContainsFunc(works, func(work workv1.ManifestWork) bool { return deliver.BindingOf(&work) != name }) {
		again = shorterWait(again, sum.KeptAfter) // it does not bring the binding back when it goes
	}
	if kept == nil {
		return again, nil
	}
	after := deepcopy.CopyObject(b)
	conditions.SetCondition(&after.BindingStatus().Conditions, b.GetGeneration(), *kept)
	if err := conditions.PatchStatus(ctx, c.Client, b, after); client.IgnoreNotFound(err) != nil {
		return again, fmt.Errorf("writing the status of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return again, nil
}

// hasSuccessor reports whether another binding is to have the name of one that is being deleted:
// there is another object by now that has the kind and the name, or the same one is to be
// sent again.
func (c bindingFinalizer) hasSuccessor(b binding) bool {
	key := templates.KeyOf(b.BindingSpec().Resource)
	object, known := c.Templates.Get(key)
	if !known || object == nil {
		return false
	}
	needed := claims.HasClaimMarks(object) || len(b.BindingSpec().RequiredBy) > 0
	return object.UID != b.BindingSpec().Resource.UID || object.DeletionTimestamp.IsZero() && needed && !c.isReservedObject(key, object)
}

func isAliveWork(work workv1.ManifestWork) bool { return work.DeletionTimestamp.IsZero() }

// keepsWorks reports whether what was sent for a binding that is being deleted stays. It
// does if its object is still to be sent: the binding is made anew then, and has
// the same works. One that is reserved is not. It does, too, if bindings go because their definition does, which
// says nothing about the objects.
func (c bindingFinalizer) keepsWorks(ctx context.Context, b binding) (bool, error) {
	key := templates.KeyOf(b.BindingSpec().Resource)
	object, err := c.Objects.Get(ctx, key)
	switch {
	case apierrors.IsForbidden(err): // no policy selects its kind any more
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case object.GetUID() != b.BindingSpec().Resource.UID || !object.GetDeletionTimestamp().IsZero() || c.isReservedObject(key, object):
		return false, nil
	case claims.HasClaimMarks(object):
		return true, nil
	}
	if claims.HasClaimMarks(b) || len(b.BindingSpec().RequiredBy) > 0 {
		return true, nil
	}
	return c.isDefinitionGone()
}

// isDefinitionGone reports whether the definition of bindings is gone or going: nothing can
// be created by it any more.
func (c bindingFinalizer) isDefinitionGone() (bool, error) {
	served, err := c.Discovery.ServerResourcesForGroupVersion(workv1alpha2.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking whether the hub serves bindings: %w", err)
	}
	creatable := 0
	for _, resource := range served.APIResources {
		if (resource.Name == "resourcebindings" || resource.Name == "clusterresourcebindings") && slices.Contains(resource.Verbs, "create") {
			creatable++
		}
	}
	return creatable < 2, nil
}

// deleteAbandonedWorks deletes the works of a binding that does not exist, if their object
// does not exist either. A controller that led before may have created them when
// the binding was about to go. It returns how soon to go on, 0 if nothing waits for its turn.
func (c bindingFinalizer) deleteAbandonedWorks(ctx context.Context, name types.NamespacedName) (again time.Duration, err error) {
	works, err := c.Works.ListByBinding(name)
	if err != nil {
		return 0, err
	}
	works = slices.DeleteFunc(works, func(w *workv1.ManifestWork) bool { return !isAliveWork(*w) })
	if len(works) == 0 {
		return 0, nil
	}
	err = c.Live.Get(ctx, name, emptyBinding(name))
	switch {
	case err == nil:
		return 0, nil // the cache shows it soon
	case !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return 0, fmt.Errorf("reading the binding %q: %w", name, err)
	}
	var problems []error // each concerns one work: a member may have written into it
	for _, work := range works {
		lost, err := c.isObjectLost(ctx, work)
		problems = append(problems, err)
		if !lost {
			continue
		}
		gone, err := withdrawBindingWorks(ctx, c.BindingControllerDeps, name.Namespace, []workv1.ManifestWork{*work}, false)
		problems = append(problems, err, send.JoinErrors(gone.failed))
		if gone.held.AnyHeld() { // and so would the others, which are not read from the hub for that
			again = gone.held.Again
			break
		}
	}
	return again, errors.Join(problems...)
}

// isObjectLost reports whether the object that a work was made of does not exist any more.
func (c bindingFinalizer) isObjectLost(ctx context.Context, work *workv1.ManifestWork) (bool, error) {
	live := &workv1.ManifestWork{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(work), live); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil // there is nothing to delete
		}
		return false, fmt.Errorf("reading ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	of, ok := deliver.TemplateOf(live)
	if !ok || live.UID != work.UID {
		return false, nil
	}
	object, err := c.Objects.Get(ctx, templates.KeyOf(of))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && object.GetUID() != of.UID, err
}

// isDecisionCurrent reports whether a binding is still what it was when the clusters were
// chosen that get its object, and those that do not any more. A controller that
// has just lost the lead may have an older one in its cache: it would take from
// clusters what they have been given since, and give them what they are to lose.
func (c *BindingController) isDecisionCurrent(ctx context.Context, b binding) (bool, error) {
	name := client.ObjectKeyFromObject(b)
	live := emptyBinding(name)
	if err := c.Live.Get(ctx, name, live); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading the binding %q: %w", name, err)
	}
	return live.GetUID() == b.GetUID() && live.GetGeneration() == b.GetGeneration() && live.GetDeletionTimestamp().IsZero(), nil
}

func emptyBinding(name types.NamespacedName) binding {
	if name.Namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{}
	}
	return &workv1alpha2.ResourceBinding{}
}

// deleteWorks deletes the works of a binding, those whose turn it is.
func (c bindingFinalizer) deleteWorks(ctx context.Context, b binding, works []workv1.ManifestWork) (allowance.HeldWorks, error) {
	gone, err := withdrawBindingWorks(ctx, c.BindingControllerDeps, b.GetNamespace(), works, deliver.PreservesOnDeletion(b))
	if err != nil {
		return gone.held, err
	}
	if err := send.TakePassingErrors(gone.failed); err != nil {
		return gone.held, err
	}
	err = send.JoinErrors(gone.failed)
	if err != nil {
		c.Announce.RecordEvents(announce.BindingWarning(b, announce.ReasonCleanupWorkFailed, err.Error()))
	}
	return gone.held, err
}
