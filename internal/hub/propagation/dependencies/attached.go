// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// AttachedController keeps the bindings of objects that others need.
type AttachedController struct {
	DependencyDeps

	// refers is told of the bindings that need an object which has just come, and may
	// need others.
	refers func(types.NamespacedName)
	// changes are those of bindings.
	changes *inbox.ChangeQueue[templates.Key]
}

// NewAttachedController returns the controller. It tells ReferrerController what has come.
func NewAttachedController(d DependencyDeps, refers func(types.NamespacedName)) *AttachedController {
	a := &AttachedController{DependencyDeps: d, refers: refers}
	a.changes = inbox.NewChangeQueue(a.enqueueNeeded)
	return a
}

// Reconcile makes the binding of one object say who needs the object: it comes
// with the first who does and goes with the last, unless a policy claims the
// object as well.
func (a *AttachedController) Reconcile(ctx context.Context, key templates.Key) (ctrl.Result, error) {
	ctx, end := a.Objects.Memory.BeginReservation(ctx, key.Name.Namespace)
	defer end()
	if key.Name.Namespace == "" {
		return ctrl.Result{}, nil
	}
	if err := a.Fleet.LoadClusters(ctx, a.Live); err != nil {
		return ctrl.Result{}, err
	}
	object, known := a.Templates.Get(key)
	if !known || object == nil || !object.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the detector deletes the binding of an object that is gone
	}
	if claims.ReservedReason(key.Kind.GroupKind(), object, a.Fleet.Snapshot()) != "" {
		return ctrl.Result{}, nil // as well as that of one that is reserved
	}
	referrers, err := a.listReferrers(ctx, key, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	found, err := lookup.FindBindings(ctx, a.Client, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	needs := references.SumReferrerNeeds(referrers)
	present := found.OfObject(object.UID)
	switch {
	case len(found.ExceptObject(object.UID)) > 0:
		return ctrl.Result{}, nil // the detector deletes those, and it comes again when they are gone
	case present != nil:
		wait, err := a.syncAttachedBinding(ctx, object, present, needs)
		a.announceProblems(present, referrers, needs, err)
		return ctrl.Result{RequeueAfter: wait}, err
	case len(needs.RequiredBy) == 0:
		return ctrl.Result{}, nil
	}
	if a.Chain.MayHaveDependencies(key.Kind) {
		for _, b := range referrers {
			a.refers(types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()})
		}
	}
	if wait := a.Meter.WaitBeforeChange(ctx, key.Name.Namespace); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	b := found.NewBinding(key)
	err = a.createBinding(ctx, b, object, needs)
	a.announceProblems(b, referrers, needs, err)
	return ctrl.Result{}, err
}

// announceProblems tells of what the bindings that need an object cannot have: its binding as
// they want it, or each what it wants.
func (a *AttachedController) announceProblems(b lookup.Binding, referrers []workv1alpha2.Binding, needs references.ReferrerNeeds, err error) {
	if err == nil && len(needs.Conflicts) > 0 {
		a.Announce.RecordEvents(announce.BindingWarning(b, announce.ReasonDependencyPolicyConflict, strings.Join(needs.Conflicts, "; ")+
			": the policies of the objects that need this one differ, and the first of both wins"))
	}
	if err == nil || apierrors.IsConflict(err) {
		return
	}
	for _, referrer := range referrers {
		a.Announce.RecordEvents(announce.BindingWarning(referrer, announce.ReasonSyncToDependenciesFailed, err.Error()))
	}
}

// syncAttachedBinding makes the present binding of an object say who needs it. If nobody does, it
// says so before it is deleted: what was sent for one that still says who needs it
// stays, as it was somebody else who deleted that. It returns how soon to look
// again; 0 is never.
func (a *AttachedController) syncAttachedBinding(
	ctx context.Context, object *metav1.PartialObjectMetadata, present lookup.Binding, needs references.ReferrerNeeds,
) (wait time.Duration, err error) {
	if !present.GetDeletionTimestamp().IsZero() {
		if len(needs.RequiredBy) == 0 {
			return 0, nil
		}
		// Then it does not await what clusters keep; the object comes again when it is gone.
		return a.updateBinding(ctx, present, needs)
	}
	awaited, err := a.awaitedReferrers(ctx, object, present, needs)
	if err != nil {
		return 0, err
	}
	if needs = needs.WithReferrers(present, awaited); len(awaited) > 0 {
		wait = returning
	}
	switch spec := present.BindingSpec(); {
	case len(needs.RequiredBy) > 0 || len(spec.RequiredBy) > 0 || references.Attached(present):
		paid, err := a.updateBinding(ctx, present, needs)
		return cmp.Or(paid, wait), err
	case spec.Placement == nil && len(spec.Clusters) == 0:
		return 0, a.deleteBinding(ctx, present)
	default:
		return 0, nil
	}
}

// listReferrers returns the bindings whose objects need an object: those that name it,
// and those that select it.
func (a *AttachedController) listReferrers(ctx context.Context, key templates.Key, object metav1.Object) ([]workv1alpha2.Binding, error) {
	var referrers []workv1alpha2.Binding
	seen := map[types.UID]bool{}
	for _, name := range []string{key.Name.Name, ""} {
		list := &workv1alpha2.ResourceBindingList{}
		by := client.MatchingFields{indexRefers: references.ReferenceKey(key.Kind.GroupKind(), key.Name.Namespace, name)}
		if err := a.Client.List(ctx, list, by, client.InNamespace(key.Name.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the bindings that need %s: %w", key, err)
		}
		for i := range list.Items {
			all, err := references.BindingReferences(&list.Items[i])
			if err != nil || seen[list.Items[i].UID] {
				continue // Referrers writes it anew
			}
			if slices.ContainsFunc(all, func(r references.Reference) bool { return r.RefersToObject(key.Kind.GroupKind(), object) }) {
				seen[list.Items[i].UID] = true
				referrers = append(referrers, &list.Items[i])
			}
		}
	}
	return referrers, nil
}

// createBinding creates the binding of an object that is needed.
func (a *AttachedController) createBinding(ctx context.Context, b lookup.Binding, object *metav1.PartialObjectMetadata, needs references.ReferrerNeeds) error {
	*b.BindingSpec() = workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{
			APIVersion: object.APIVersion, Kind: object.Kind, Namespace: object.Namespace, Name: object.Name,
			UID: object.UID, ResourceVersion: object.ResourceVersion,
		},
		SchedulerName: policyv1alpha1.DefaultScheduler,
	}
	b.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(object, object.GroupVersionKind())})
	b.SetLabels(map[string]string{workv1alpha2.LabelResourceBindingID: lookup.PermanentBindingID(object)})
	b.SetFinalizers([]string{workv1alpha2.FinalizerResourceBinding})
	needs.ApplyToBinding(b)
	err := a.Client.Create(ctx, b)
	if apierrors.IsAlreadyExists(err) {
		err = apierrors.NewConflict(workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource(), b.GetName(), err)
	}
	if err != nil {
		return fmt.Errorf("creating the binding of %s: %w", templates.KeyOf(b.BindingSpec().Resource), err)
	}
	return nil
}

// updateBinding makes a binding say who needs its object, or returns how long its namespace has to wait before it may.
func (a *AttachedController) updateBinding(ctx context.Context, present lookup.Binding, needs references.ReferrerNeeds) (wait time.Duration, err error) {
	after := deepcopy.CopyObject(present)
	needs.ApplyToBinding(after)
	if equality.Semantic.DeepEqual(present, after) {
		if present.BindingSpec().Placement == nil { // of what a policy claims the detector tells
			a.Touched(client.ObjectKeyFromObject(present))
		}
		return 0, nil
	}
	if wait := a.Meter.WaitBeforeChange(ctx, present.GetNamespace()); wait > 0 {
		return wait, nil
	}
	err = a.Client.Patch(ctx, after, client.MergeFromWithOptions(present, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("changing the binding of %s: %w", templates.KeyOf(after.BindingSpec().Resource), err)
	}
	return 0, nil
}

// deleteBinding deletes the binding of an object that nobody needs any more, unless it
// has changed since: a policy may have claimed the object.
func (a *AttachedController) deleteBinding(ctx context.Context, b lookup.Binding) error {
	uid := b.GetUID()
	version := b.GetResourceVersion()
	if err := a.Client.Delete(ctx, b, client.Preconditions{UID: &uid, ResourceVersion: &version}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the binding of %s: %w", templates.KeyOf(b.BindingSpec().Resource), err)
	}
	return nil
}
