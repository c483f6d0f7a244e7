// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// FieldManager is that of what is written to the objects of the hub.
const FieldManager = "propagation-controller"

// HubObjects reads and writes whole objects of the hub, which no cache has.
type HubObjects struct {
	Client dynamic.Interface
	Mapper meta.RESTMapper
	// Absent reports whether there has been no such kind for long.
	Absent func(schema.GroupVersionKind) bool
	// Contents remembers what was read and written last.
	Contents *ContentCache
	// Memory has room for what is read. The Client has to go through decoding.NewTransport, and who
	// reads has to Begin, or large objects do not wait for room. May be nil.
	Memory *decoding.Memory
}

// GetSince returns an object as it was in a version or is since, without asking for it
// if that is remembered. The API server has it in its own cache: only what it does
// not find there is read as Get does. A nil version, of an object that is not known,
// is any.
func (o HubObjects) GetSince(ctx context.Context, key Key, version *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	if version == nil {
		return o.Get(ctx, key)
	}
	if object := o.Contents.getSince(ctx, key, version); object != nil {
		return object, nil
	}
	resource, err := o.resourceClient(key)
	if err != nil {
		return nil, o.absentError(key, err)
	}
	object, err := resource.Get(ctx, key.Name.Name, metav1.GetOptions{ResourceVersion: version.ResourceVersion})
	if err != nil {
		return o.Get(ctx, key) // which says what is wrong, if anything is
	}
	o.Contents.putObject(key, object)
	return object, nil
}

// Get reads an object. It is not found only if the hub serves its kind and has
// none, or if there has been no such kind for long: what is served may change for
// a moment, and what it says then is no reason to delete anything.
func (o HubObjects) Get(ctx context.Context, key Key) (*unstructured.Unstructured, error) {
	resource, err := o.resourceClient(key)
	if err != nil {
		return nil, o.absentError(key, err)
	}
	object, err := resource.Get(ctx, key.Name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, o.absentError(key, fmt.Errorf("reading %s: the hub does not serve its kind: %v", key, err)) //nolint:errorlint // it is not said that there is none
	case apierrors.IsForbidden(err): // which is also said of what is not served
		return nil, o.absentError(key, fmt.Errorf("reading %s: %w", key, err))
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	o.Contents.putObject(key, object)
	return object, nil
}

// absentError returns the error of an object whose kind the hub does not serve.
func (o HubObjects) absentError(key Key, err error) error {
	if o.Absent != nil && o.Absent(key.Kind) {
		return fmt.Errorf("reading %s: %w", key, apierrors.NewNotFound(schema.GroupResource{Group: key.Kind.Group, Resource: key.Kind.Kind}, key.Name.Name))
	}
	return err
}

// MarkObject changes labels and annotations of the object with the UID; nil removes a
// key. It returns the object as it is then.
func (o HubObjects) MarkObject(ctx context.Context, key Key, uid types.UID, labels, annotations map[string]any) (*unstructured.Unstructured, error) {
	return o.patchObject(ctx, key, map[string]any{"metadata": map[string]any{"uid": uid, "labels": labels, "annotations": annotations}})
}

// SetStatus writes the fields of the status of the object with the UID; nil
// removes a field. Other fields stay. It returns the object as it is then.
func (o HubObjects) SetStatus(ctx context.Context, key Key, uid types.UID, status map[string]any) (*unstructured.Unstructured, error) {
	return o.patchObject(ctx, key, map[string]any{"metadata": map[string]any{"uid": uid}, "status": status}, "status")
}

func (o HubObjects) patchObject(ctx context.Context, key Key, change map[string]any, subresources ...string) (*unstructured.Unstructured, error) {
	resource, err := o.resourceClient(key)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encoding the change of %s: %w", key, err)
	}
	options := metav1.PatchOptions{FieldManager: FieldManager}
	object, err := resource.Patch(ctx, key.Name.Name, types.MergePatchType, body, options, subresources...)
	if err != nil {
		return nil, fmt.Errorf("changing %s: %w", key, err)
	}
	o.Contents.putObject(key, object)
	return object, nil
}

func (o HubObjects) resourceClient(key Key) (dynamic.ResourceInterface, error) {
	mapping, err := o.Mapper.RESTMapping(key.Kind.GroupKind(), key.Kind.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", key, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return o.Client.Resource(mapping.Resource).Namespace(key.Name.Namespace), nil
	}
	if key.Name.Namespace != "" { // or else whoever writes a binding in a namespace would name what is in none
		return nil, fmt.Errorf("%s has no namespace: %w", key, apierrors.NewNotFound(mapping.Resource.GroupResource(), key.Name.Name))
	}
	return o.Client.Resource(mapping.Resource), nil
}
