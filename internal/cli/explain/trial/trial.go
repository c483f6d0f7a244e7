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

// DryRunApply lets the hub check an object and fill in its defaults, as a dry run. For a
// user who may not write it, the defaults are those of this release.
func DryRunApply(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*Trial, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(written.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(written), live)
	if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
		return dryRunCreate(ctx, c, written)
	}
	if err != nil {
		return nil, err
	}
	return dryRunChange(ctx, c, written, live)
}

// DryRunDelete asks the hub to delete an object, as a dry run. The note says so if it
// would refuse that: the object is protected, or the user may not delete it.
func DryRunDelete(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*Trial, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(written.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(written), live); err != nil {
		return nil, err
	}
	t := &Trial{Now: live, Then: live, Gone: true}
	err := client.NewDryRunClient(c).Delete(ctx, live.DeepCopy())
	if apierrors.IsForbidden(err) {
		t.Note = fmt.Sprintf("The hub would not let you delete %s: %v", trialObjectName(live), err)
		err = nil
	}
	return t, err
}

// ChangeType is what applying the object would be.
func (t *Trial) ChangeType() string {
	switch {
	case t.Gone:
		return Deleted
	case t.Now == nil:
		return New
	case equality.Semantic.DeepEqual(userContent(t.Now), userContent(t.Then)):
		return Unchanged
	default:
		return Changed
	}
}

// userContent returns what users say of an object.
func userContent(object *unstructured.Unstructured) map[string]any {
	all := maps.Clone(object.Object)
	delete(all, "metadata")
	delete(all, "status")
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	all["labels"], all["annotations"] = object.GetLabels(), annotations
	return all
}

func strictDryRunClient(c client.Client) client.Client {
	return client.WithFieldValidation(client.NewDryRunClient(c), metav1.FieldValidationStrict)
}

func dryRunCreate(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*Trial, error) {
	t := &Trial{Then: written.DeepCopy()}
	err := strictDryRunClient(c).Create(ctx, t.Then)
	if unchecked(err) {
		t.Note, t.Then = uncheckedNote(written, err), written.DeepCopy()
		return t, fillIn(t.Then)
	}
	return t, err
}

func dryRunChange(ctx context.Context, c client.Client, written, live *unstructured.Unstructured) (*Trial, error) {
	t := &Trial{Now: live, Then: live.DeepCopy()}
	patch, options, err := patchOf(written, live)
	if err != nil {
		return nil, fmt.Errorf("compare %s with what is on the hub: %w", trialObjectName(written), err)
	}
	err = strictDryRunClient(c).Patch(ctx, t.Then, patch, options...)
	if !unchecked(err) {
		return t, err
	}
	t.Note = uncheckedNote(written, err)
	if t.Then, err = mergeLocally(written, live); err != nil {
		return nil, fmt.Errorf("compare %s with what is on the hub: %w", trialObjectName(written), err)
	}
	return t, fillIn(t.Then)
}

// unchecked reports whether the hub did not look at the object, as the user may not
// write it or its namespace is not there.
func unchecked(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

func uncheckedNote(written *unstructured.Unstructured, err error) string {
	return fmt.Sprintf("The hub did not check %s: %v", trialObjectName(written), err)
}

func trialObjectName(object *unstructured.Unstructured) string {
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
	text, err := buildMergePatch(written, live)
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

// buildMergePatch returns a merge patch.
func buildMergePatch(written, live *unstructured.Unstructured) ([]byte, error) {
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
	wanted.SetLabels(overlayMaps(live.GetLabels(), written.GetLabels()))
	wanted.SetAnnotations(overlayMaps(live.GetAnnotations(), written.GetAnnotations()))
	if modified, err = wanted.MarshalJSON(); err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(current, modified)
}

func overlayMaps(base, top map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, base)
	maps.Copy(all, top)
	if len(all) == 0 {
		return nil
	}
	return all
}

// mergeLocally makes the change here.
func mergeLocally(written, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := buildMergePatch(written, live)
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
