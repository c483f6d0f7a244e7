// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AppliedRecord is what an operator remembers of an object that it applied.
type AppliedRecord struct {
	schema.GroupVersionResource
	Kind      string
	Namespace string
	Name      string
	// Generation that the object had after it was applied; 0 for kinds without one.
	Generation int64
}

// Applier applies objects with server-side apply as one field owner.
type Applier struct {
	client client.Client
	reader client.Reader
	owner  client.FieldOwner
}

// NewApplier returns an Applier that writes with the client and finds out from
// the reader what is there already: pass the client itself to use its cache. An
// object that the reader does not see is applied without further question.
func NewApplier(c client.Client, reader client.Reader, owner string) *Applier {
	return &Applier{client: c, reader: reader, owner: client.FieldOwner(owner)}
}

// Apply applies the objects in order and returns a record of each. An object
// that is as wanted is not written. It stops at the first object that fails
// and then returns the records up to that one.
func (a *Applier) Apply(ctx context.Context, objects ...Object) ([]AppliedRecord, error) {
	records := make([]AppliedRecord, 0, len(objects))
	for _, object := range objects {
		record, err := a.applyIfChanged(ctx, object)
		if err != nil {
			return records, err
		}
		records = append(records, record)
	}
	return records, nil
}

func (a *Applier) applyIfChanged(ctx context.Context, object Object) (AppliedRecord, error) {
	desired, err := StampAppliedHash(object)
	if err != nil {
		return AppliedRecord{}, err
	}
	live, err := a.readLive(ctx, desired)
	if err != nil {
		return AppliedRecord{}, err
	}
	if live != nil && isUnchanged(desired, live) {
		record, err := a.newRecord(desired)
		record.Generation = live.GetGeneration()
		return record, err
	}
	return a.serverSideApply(ctx, desired)
}

// ApplyUnconditionally applies an object without asking whether it is as wanted already, for
// callers that know.
func (a *Applier) ApplyUnconditionally(ctx context.Context, object Object) (AppliedRecord, error) {
	desired, err := StampAppliedHash(object)
	if err != nil {
		return AppliedRecord{}, err
	}
	return a.serverSideApply(ctx, desired)
}

func (a *Applier) serverSideApply(ctx context.Context, desired *unstructured.Unstructured) (AppliedRecord, error) {
	record, err := a.newRecord(desired)
	if err != nil {
		return AppliedRecord{}, err
	}
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), a.owner, client.ForceOwnership)
	if err != nil {
		return AppliedRecord{}, fmt.Errorf("applying %s: %w", describeObject(desired), err)
	}
	record.Generation = desired.GetGeneration() // the answer of the server is in desired
	return record, nil
}

// readLive returns the object as the reader sees it, or nil if it sees none.
func (a *Applier) readLive(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object, err := a.newEmptyObject(desired.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	err = a.reader.Get(ctx, client.ObjectKeyFromObject(desired), object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", describeObject(desired), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", describeObject(desired), err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// newEmptyObject returns an object of the kind: a typed one if the scheme knows it, so
// that all readers of a kind share one cache.
func (a *Applier) newEmptyObject(gvk schema.GroupVersionKind) (client.Object, error) {
	if !a.client.Scheme().Recognizes(gvk) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := a.client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("making an empty %s: %w", gvk.Kind, err)
	}
	object, ok := typed.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an API object", gvk.Kind)
	}
	return object, nil
}

func (a *Applier) newRecord(object *unstructured.Unstructured) (AppliedRecord, error) {
	gvk := object.GroupVersionKind()
	mapping, err := a.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return AppliedRecord{}, fmt.Errorf("finding the resource of %s: %w", describeObject(object), err)
	}
	return AppliedRecord{
		GroupVersionResource: mapping.Resource, Kind: gvk.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(),
	}, nil
}

// RemoveLabelled deletes the objects of the kinds and names of the given ones that have
// all of the labels. One that nobody may see is not ours.
func (a *Applier) RemoveLabelled(ctx context.Context, labels map[string]string, objects ...Object) error {
	for _, object := range objects {
		named, err := ToUnstructured(object)
		if err != nil {
			return err
		}
		live, err := a.readLive(ctx, named)
		if apierrors.IsForbidden(err) || err == nil && live == nil {
			continue
		}
		if err != nil {
			return err
		}
		if !apilabels.SelectorFromSet(labels).Matches(apilabels.Set(live.GetLabels())) {
			continue
		}
		if err := a.deleteObject(ctx, named.GroupVersionKind(), live); err != nil {
			return err
		}
	}
	return nil
}

// PruneScope says among which objects Prune looks.
type PruneScope struct {
	Kinds []schema.GroupVersionKind
	// Labels that all objects have which may be removed. It must not be empty.
	Labels map[string]string
	// Namespace limits the search for kinds with a namespace; empty is all.
	Namespace string
}

// errNoLabels guards against removing everything of a kind.
var errNoLabels = errors.New("pruning needs labels that tell our objects from others")

// Prune deletes the objects in the scope of which no record is to be kept. It
// returns records of those that it found, so an empty answer means that all
// are gone. An object with finalizers is found until these are removed.
func (a *Applier) Prune(ctx context.Context, scope PruneScope, keep []AppliedRecord) ([]AppliedRecord, error) {
	if len(scope.Labels) == 0 {
		return nil, errNoLabels
	}
	kept := map[AppliedRecord]bool{}
	for _, record := range keep {
		kept[recordIdentity(record)] = true
	}
	var found []AppliedRecord
	var errs []error
	for _, gvk := range scope.Kinds {
		objects, err := a.listInScope(ctx, gvk, scope)
		errs = append(errs, err)
		for _, object := range objects {
			record := recordIdentity(AppliedRecord{
				GroupVersionResource: schema.GroupVersionResource{Group: gvk.Group},
				Kind:                 gvk.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
			})
			if kept[record] {
				continue
			}
			found = append(found, record)
			errs = append(errs, a.deleteObject(ctx, gvk, object))
		}
	}
	return found, errors.Join(errs...)
}

// recordIdentity drops what two records of the same object may differ in.
func recordIdentity(r AppliedRecord) AppliedRecord {
	return AppliedRecord{
		GroupVersionResource: schema.GroupVersionResource{Group: r.Group},
		Kind:                 r.Kind, Namespace: r.Namespace, Name: r.Name,
	}
}

func (a *Applier) listInScope(ctx context.Context, gvk schema.GroupVersionKind, scope PruneScope) ([]client.Object, error) {
	listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	var list client.ObjectList
	if typed, err := a.client.Scheme().New(listKind); err == nil {
		list, _ = typed.(client.ObjectList)
	}
	if list == nil {
		u := &unstructured.UnstructuredList{}
		u.SetGroupVersionKind(listKind)
		list = u
	}
	options := []client.ListOption{client.MatchingLabels(scope.Labels)}
	namespaced, err := a.isNamespaced(gvk)
	if meta.IsNoMatchError(err) {
		return nil, nil // the kind is gone, and so are its objects
	}
	if err != nil {
		return nil, err
	}
	if namespaced && scope.Namespace != "" {
		options = append(options, client.InNamespace(scope.Namespace))
	}
	if err := a.reader.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok {
			objects = append(objects, object)
		}
		return nil
	})
	return objects, err
}

func (a *Applier) isNamespaced(gvk schema.GroupVersionKind) (bool, error) {
	mapping, err := a.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

func (a *Applier) deleteObject(ctx context.Context, gvk schema.GroupVersionKind, object client.Object) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(gvk)
	target.SetName(object.GetName())
	target.SetNamespace(object.GetNamespace())
	uid := object.GetUID()
	err := a.client.Delete(ctx, target, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %q: %w", gvk.Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
