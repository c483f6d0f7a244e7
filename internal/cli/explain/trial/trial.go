// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/hub"
)

// The changes that applying an object would be.
const (
	New       = "new"
	Changed   = "changed"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// Trial is an object as the hub would have it.
type Trial struct {
	// Now is the object as it is, nil if there is none, and Then as it would be.
	Now, Then *unstructured.Unstructured
	// Note says why the hub did not check it; "" if it did.
	Note string
	// Gone says that the object would be deleted: Then is as it is.
	Gone bool
}

// Of lets the hub check an object and fill in its defaults, as a dry run. For a
// user who may not write it, the defaults are those of this release.
func Of(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*Trial, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(written.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(written), live)
	if apierrors.IsNotFound(err) && hub.Served(err) {
		return create(ctx, c, written)
	}
	if err != nil {
		return nil, err
	}
	return change(ctx, c, written, live)
}

// Deletion asks the hub to delete an object, as a dry run. The note says so if it
// would refuse that: the object is protected, or the user may not delete it.
func Deletion(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*Trial, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(written.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(written), live); err != nil {
		return nil, err
	}
	t := &Trial{Now: live, Then: live, Gone: true}
	err := client.NewDryRunClient(c).Delete(ctx, live.DeepCopy())
	if apierrors.IsForbidden(err) {
		t.Note = fmt.Sprintf("The hub would not let you delete %s: %v", name(live), err)
		err = nil
	}
	return t, err
}

// Change is what applying the object would be.
func (t *Trial) Change() string {
	switch {
	case t.Gone:
		return Deleted
	case t.Now == nil:
		return New
	case equality.Semantic.DeepEqual(said(t.Now), said(t.Then)):
		return Unchanged
	default:
		return Changed
	}
}

// said returns what users say of an object.
func said(object *unstructured.Unstructured) map[string]any {
	all := maps.Clone(object.Object)
	delete(all, "metadata")
	delete(all, "status")
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	all["labels"], all["annotations"] = object.GetLabels(), annotations
	return all
}

func checking(c client.Client) client.Client {
	return client.WithFieldValidation(client.NewDryRunClient(c), metav1.FieldValidationStrict)
}

func create(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*Trial, error) {
	t := &Trial{Then: written.DeepCopy()}
	err := checking(c).Create(ctx, t.Then)
	if unchecked(err) {
		t.Note, t.Then = unheard(written, err), written.DeepCopy()
		return t, fillIn(t.Then)
	}
	return t, err
}

func change(ctx context.Context, c client.Client, written, live *unstructured.Unstructured) (*Trial, error) {
	t := &Trial{Now: live, Then: live.DeepCopy()}
	patch, options, err := patchOf(written, live)
	if err != nil {
		return nil, fmt.Errorf("compare %s with what is on the hub: %w", name(written), err)
	}
	err = checking(c).Patch(ctx, t.Then, patch, options...)
	if !unchecked(err) {
		return t, err
	}
	t.Note = unheard(written, err)
	if t.Then, err = merged(written, live); err != nil {
		return nil, fmt.Errorf("compare %s with what is on the hub: %w", name(written), err)
	}
	return t, fillIn(t.Then)
}

// unchecked tells whether the hub did not look at the object, as the user may not
// write it or its namespace is not there.
func unchecked(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

func unheard(written *unstructured.Unstructured, err error) string {
	return fmt.Sprintf("The hub did not check %s: %v", name(written), err)
}

func name(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// patchOf returns the change that whoever applies the file makes: by kubectl, which
// remembers what it applied last, or on the server, which does; or else everything
// that the file says replaces what is there.
func patchOf(written, live *unstructured.Unstructured) (client.Patch, []client.PatchOption, error) {
	if manager := applier(live); live.GetAnnotations()[corev1.LastAppliedConfigAnnotation] == "" && manager != "" {
		text, err := written.MarshalJSON()
		return client.RawPatch(types.ApplyPatchType, text), []client.PatchOption{client.ForceOwnership, client.FieldOwner(manager)}, err
	}
	text, err := difference(written, live)
	return client.RawPatch(types.MergePatchType, text), nil, err
}

// applier returns who applied the object on the server, "" if nobody did.
func applier(live *unstructured.Unstructured) string {
	fields := live.GetManagedFields()
	i := slices.IndexFunc(fields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == ""
	})
	if i < 0 {
		return ""
	}
	return fields[i].Manager
}

// difference returns a merge patch.
func difference(written, live *unstructured.Unstructured) ([]byte, error) {
	current, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	modified, err := written.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if last := live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; last != "" {
		return jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(last), modified, current)
	}
	wanted := live.DeepCopy()
	for key, value := range written.Object {
		if key != "metadata" && key != "status" {
			wanted.Object[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	wanted.SetLabels(over(live.GetLabels(), written.GetLabels()))
	wanted.SetAnnotations(over(live.GetAnnotations(), written.GetAnnotations()))
	if modified, err = wanted.MarshalJSON(); err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(current, modified)
}

func over(base, top map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, base)
	maps.Copy(all, top)
	if len(all) == 0 {
		return nil
	}
	return all
}

// merged makes the change here.
func merged(written, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := difference(written, live)
	if err != nil {
		return nil, err
	}
	current, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	text, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(text, object)
}
