// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/interpreters"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

const (
	// again is how soon to look whether attached bindings have let go, and againMax how late: one
	// whose object does not exist never does, whoever has written it.
	again, againMax = 200 * time.Millisecond, time.Minute
	// unreadAgain is how soon to look whether what may not be read may be by now.
	unreadAgain = 5 * time.Second
	// action is what events say that the controllers were about.
	action = "Propagate"
)

// DependencyDeps are what the controllers work with.
type DependencyDeps struct {
	// Client reads bindings from a cache, and Live from the API server.
	Client    client.Client
	Live      client.Reader
	Templates *templates.Templates
	Objects   templates.HubObjects
	Fleet     *fleet.Fleet
	Chain     interpret.Chain
	// Interpreters are the customizations in Chain, which have to be loaded.
	Interpreters *interpreters.KnownInterpreters
	// Meter says when the bindings of what is needed may be changed.
	Meter *store.WriteMeter
	// Touched is told of a binding whose object may have changed in something that
	// the binding does not say.
	Touched func(types.NamespacedName)
	// Events tells what is not sent along.
	Events *events.Recorder
	// Announce tells what became of references; nil tells nothing.
	Announce *announce.Announcer
}

// ReferrerController says of each binding what its object needs. Attached sees that in the cache.
type ReferrerController struct {
	DependencyDeps

	mu sync.Mutex
	// looks is how often was looked whether what a binding has needed has let go.
	looks map[types.NamespacedName]int
}

// Reconcile keeps up to date what one binding says of the needs of its object, and
// lets a binding go that is made anew.
func (r *ReferrerController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, end := r.Objects.Memory.BeginReservation(ctx, req.Namespace)
	defer end()
	if err := r.Interpreters.EnsureLoaded(ctx); err != nil {
		return ctrl.Result{}, err
	}
	b := &workv1alpha2.ResourceBinding{}
	if err := r.Client.Get(ctx, req.NamespacedName, b); err != nil {
		if apierrors.IsNotFound(err) {
			r.wait(req.NamespacedName, false)
			r.Templates.UseKinds(referencesUser(req.NamespacedName))
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading the binding %q: %w", req.NamespacedName, err)
	}
	if returns, err := r.releaseRecreated(ctx, b); returns || err != nil {
		return ctrl.Result{}, err
	}
	return r.updateReferences(ctx, b)
}

// updateReferences writes into a binding what its object needs.
func (r *ReferrerController) updateReferences(ctx context.Context, b *workv1alpha2.ResourceBinding) (ctrl.Result, error) {
	before, err := references.BindingReferences(b)
	if err != nil {
		before = nil // it is written anew
	}
	if !references.SendsDependencies(b) && len(before) == 0 && !controllerutil.ContainsFinalizer(b, workv1alpha2.FinalizerDependencies) {
		r.wait(client.ObjectKeyFromObject(b), false) // somebody may have removed the finalizer
		return ctrl.Result{}, nil                    // it needs nothing, or is itself what is needed
	}
	after, left, err := r.collectReferences(ctx, b)
	unread := apierrors.IsForbidden(err)
	switch {
	case unread: // the right to read a kind comes when a binding says that it needs it
		after = references.MergeReferences(after, before)
	case err != nil:
		return r.reportUnknown(b, err)
	}
	r.Templates.UseKinds(referencesUser(client.ObjectKeyFromObject(b)), referencedKinds(after)...)
	holds, err := r.isStillReferred(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	wrote, err := r.writeReferences(ctx, b, after, holds || len(after) > 0)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wrote {
		r.warnLeftOut(b, left)
	}
	wait := r.wait(client.ObjectKeyFromObject(b), holds && !references.SendsDependencies(b))
	switch {
	case wait > 0:
		return ctrl.Result{RequeueAfter: wait}, nil
	case unread:
		return ctrl.Result{RequeueAfter: unreadAgain}, nil
	}
	return ctrl.Result{}, nil
}

// wait returns how long to wait for what a binding has needed, longer each time; 0 if it does not.
func (r *ReferrerController) wait(binding types.NamespacedName, waits bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !waits {
		delete(r.looks, binding)
		return 0
	}
	if r.looks == nil {
		r.looks = map[types.NamespacedName]int{}
	}
	r.looks[binding]++
	return backoff.DelayAfter(r.looks[binding], backoff.ExponentialBetween(again, againMax))
}

// reportUnknown tells that nobody knows what the object of a binding needs.
func (r *ReferrerController) reportUnknown(b *workv1alpha2.ResourceBinding, err error) (ctrl.Result, error) {
	again := interpret.RetryDelayOf(err)
	r.Announce.RecordEvents(announce.FailureEvents(b, announce.ReasonGetDependenciesFailed, err.Error())...)
	if r.Announce == nil && (errors.Is(err, reconcile.TerminalError(nil)) || again > 0) {
		r.warnLeftOut(b, interpret.ErrorSentences(err))
	}
	if again > 0 {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{}, err
}

// releaseRecreated reports whether a binding is being deleted and made anew then. It goes at
// once, and what its object needs stays for the next one.
func (r *ReferrerController) releaseRecreated(ctx context.Context, b *workv1alpha2.ResourceBinding) (bool, error) {
	if b.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(b, workv1alpha2.FinalizerDependencies) {
		return false, nil
	}
	if remade, err := r.isRecreated(ctx, b); err != nil || !remade {
		return false, err
	}
	after := b.DeepCopy()
	controllerutil.RemoveFinalizer(after, workv1alpha2.FinalizerDependencies)
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("letting the binding %q go: %w", b.Namespace+"/"+b.Name, err)
	}
	return true, nil
}

// warnLeftOut tells what is not sent along, if anything is.
func (r *ReferrerController) warnLeftOut(b *workv1alpha2.ResourceBinding, left string) {
	if left != "" {
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, announce.ReasonGetDependenciesFailed, action, "%s", left)
	}
}

// collectReferences returns what is to be sent along with the object of a binding: what it
// needs, and what these need. Left says what is left out. With an error that
// something may not be read comes all that is known without it.
func (d DependencyDeps) collectReferences(ctx context.Context, b *workv1alpha2.ResourceBinding) (all []references.Reference, left string, err error) {
	if !references.SendsDependencies(b) {
		return nil, "", nil
	}
	key := templates.KeyOf(b.Spec.Resource)
	known, _ := d.Templates.Get(key)
	object, err := d.Objects.GetSince(ctx, key, known)
	if err != nil {
		return nil, "", client.IgnoreNotFound(err)
	}
	direct := func(object *unstructured.Unstructured) ([]references.Reference, error) {
		needed, err := references.DirectReferences(d.Chain, object, b.Namespace)
		if err != nil && interpret.RetryDelayOf(err) == 0 {
			return nil, reconcile.TerminalError(err) // it comes again with another customization
		}
		return needed, err
	}
	var unread error
	follow := func(reference references.Reference) (*unstructured.Unstructured, error) {
		object, err := d.followReference(ctx, reference)
		if apierrors.IsForbidden(err) {
			unread = err
			return nil, nil //nolint:nilnil // as follow does
		}
		return object, err
	}
	if all, left, err = references.ResolveClosure(object, direct, follow); err == nil {
		err = unread
	}
	return all, left, err
}

// followReference returns the object that is referred to, if it may need others; nil if
// not, or if there is none.
func (d DependencyDeps) followReference(ctx context.Context, reference references.Reference) (*unstructured.Unstructured, error) {
	kind := reference.GroupVersionKind()
	if reference.Name == "" || !d.Chain.MayHaveDependencies(kind) {
		return nil, nil //nolint:nilnil // nothing to follow
	}
	object, err := d.Objects.Get(ctx, templates.Key{Kind: kind, Name: types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// isStillReferred reports whether the binding of another object still says that this one
// needs it.
func (r *ReferrerController) isStillReferred(ctx context.Context, b *workv1alpha2.ResourceBinding) (bool, error) {
	label := references.DependedByLabel(b.Namespace, b.Name)
	for _, value := range []string{label, neededByMany} {
		attached := &workv1alpha2.ResourceBindingList{}
		err := r.Client.List(ctx, attached, client.InNamespace(b.Namespace), client.MatchingFields{indexNeeded: value}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return false, fmt.Errorf("listing what binding %q needs: %w", b.Namespace+"/"+b.Name, err)
		}
		for i := range attached.Items {
			if _, says := attached.Items[i].Labels[label]; says && attached.Items[i].DeletionTimestamp.IsZero() {
				return true, nil
			}
		}
	}
	return false, nil
}

// writeReferences makes the binding say what its object needs, and stay until nothing says
// any more that it is needed for this one. It reports whether it did not.
func (r *ReferrerController) writeReferences(ctx context.Context, b *workv1alpha2.ResourceBinding, all []references.Reference, stays bool) (wrote bool, err error) {
	text, err := references.EncodeAnnotation(all)
	if err != nil {
		return false, err
	}
	after := b.DeepCopy()
	annotations := maps.Clone(b.Annotations)
	delete(annotations, workv1alpha2.AnnotationDependencies)
	if text != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[workv1alpha2.AnnotationDependencies] = text
	}
	after.Annotations = annotations
	switch {
	case !stays:
		controllerutil.RemoveFinalizer(after, workv1alpha2.FinalizerDependencies)
	case b.DeletionTimestamp.IsZero():
		controllerutil.AddFinalizer(after, workv1alpha2.FinalizerDependencies)
	}
	if equality.Semantic.DeepEqual(b, after) {
		return false, nil
	}
	err = r.Client.Patch(ctx, after, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("writing what binding %q needs: %w", b.Namespace+"/"+b.Name, err)
	}
	return true, nil
}

func referencedKinds(all []references.Reference) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, reference := range all {
		kinds = append(kinds, reference.GroupVersionKind())
	}
	return kinds
}

// referencesUser names a binding as one who uses kinds.
func referencesUser(binding types.NamespacedName) string { return "references of " + binding.String() }
