// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

const (
	// returning is how soon to look again for a binding that is about to be made anew.
	// Usually it tells of itself before.
	returning = 5 * time.Second
	// askedMax is about how many the API server is asked at a time: whoever writes a
	// binding can say that any number need its object.
	askedMax = 100
)

// awaitedReferrers returns who still needs the object of a binding although no binding in the
// cache says so: somebody deleted that one, and it is about to be made anew, or has
// just been and does not say yet what it needs. The API server is asked about each, and
// the next time about those that are too many: until then they do.
func (a *AttachedController) awaitedReferrers(
	ctx context.Context, object *metav1.PartialObjectMetadata, present lookup.Binding, needs references.ReferrerNeeds,
) ([]workv1alpha2.BindingSnapshot, error) {
	var who []workv1alpha2.BindingSnapshot
	asked := 0
	for _, one := range present.BindingSpec().RequiredBy {
		if needs.HasReferrer(one) || one.Namespace != present.GetNamespace() {
			continue
		}
		if asked++; asked > askedMax {
			who = append(who, one)
			continue
		}
		still, err := a.stillNeeds(ctx, one, object)
		if err != nil {
			return nil, err
		}
		if still {
			who = append(who, one)
		}
	}
	return who, nil
}

// stillNeeds reports whether a binding that has said that it needs an object does so, or
// will when it is made anew.
func (a *AttachedController) stillNeeds(ctx context.Context, one workv1alpha2.BindingSnapshot, object *metav1.PartialObjectMetadata) (bool, error) {
	name := types.NamespacedName{Namespace: one.Namespace, Name: one.Name}
	b := &workv1alpha2.ResourceBinding{}
	switch err := a.Live.Get(ctx, name, b); {
	case err == nil && b.DeletionTimestamp.IsZero():
		all, _, err := a.collectReferences(ctx, b)
		kind := object.GroupVersionKind().GroupKind()
		return slices.ContainsFunc(all, func(r references.Reference) bool { return r.RefersToObject(kind, object) }), err
	case err == nil:
		return a.isRecreated(ctx, b)
	case !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return false, fmt.Errorf("reading the binding %q: %w", name, err)
	}
	if !a.Templates.Synced() {
		return true, nil // its object may not be known yet
	}
	for _, key := range a.Templates.ObjectsInNamespace(name.Namespace) {
		if !slices.Contains(lookup.BindingNames(key), name) {
			continue
		}
		if claimed, err := a.isObjectClaimed(ctx, key); claimed || err != nil {
			return claimed, err
		}
	}
	return false, nil
}

// isRecreated reports whether a binding that is being deleted is made anew then.
func (d DependencyDeps) isRecreated(ctx context.Context, b *workv1alpha2.ResourceBinding) (bool, error) {
	claimed, err := d.isObjectClaimed(ctx, templates.KeyOf(b.Spec.Resource))
	if apierrors.IsForbidden(err) { // no policy selects its kind any more
		return claims.HasClaimMarks(b), nil
	}
	return claimed, err
}

// isObjectClaimed reports whether there is an object that a policy claims: its binding is
// made anew whenever somebody deletes it.
func (d DependencyDeps) isObjectClaimed(ctx context.Context, key templates.Key) (bool, error) {
	object, err := d.Objects.Get(ctx, key)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return object.GetDeletionTimestamp().IsZero() && claims.HasClaimMarks(object), nil
}
