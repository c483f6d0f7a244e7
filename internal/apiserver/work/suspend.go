// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	// retriesMax is how often a patch is tried again after somebody else wrote in
	// between.
	retriesMax = 10
	// fieldManager is that of this program on the hub.
	fieldManager = "capstan-apiserver"
)

// workSuspender suspends Works and lets them go on. It is all that can be written.
type workSuspender struct{ workReader }

// Update implements rest.Updater. Patches come here, too.
func (s workSuspender) Update(
	ctx context.Context, name string, change rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	for attempt := 1; ; attempt++ {
		from, err := s.getManifestWork(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, false, err
		}
		before := workOf(from)
		after, err := updatedWork(ctx, change, before)
		if err == nil && validate != nil {
			err = validate(ctx, after.DeepCopy(), before.DeepCopy())
		}
		if err == nil {
			err = checkOnlySuspension(before, after)
		}
		if err != nil {
			return nil, false, err
		}
		if equality.Semantic.DeepEqual(before.Spec.SuspendDispatching, after.Spec.SuspendDispatching) {
			return before, false, nil
		}
		stored, err := s.patchSuspension(ctx, from, after.Spec.SuspendDispatching, o.DryRun)
		if apierrors.IsConflict(err) && attempt < retriesMax {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return workOf(stored), false, nil
	}
}

// updatedWork returns what a Work becomes. It fails if the user wrote it of another
// version, or another object of the name.
func updatedWork(ctx context.Context, change rest.UpdatedObjectInfo, before *v1alpha1.Work) (*v1alpha1.Work, error) {
	if p := change.Preconditions(); p != nil &&
		(p.UID != nil && *p.UID != before.UID || p.ResourceVersion != nil && *p.ResourceVersion != before.ResourceVersion) {
		return nil, workView().ConflictError(before.Name)
	}
	object, err := change.UpdatedObject(ctx, before.DeepCopy())
	if err != nil {
		return nil, err
	}
	after, ok := object.(*v1alpha1.Work)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no Work", object))
	}
	if after.ResourceVersion != "" && after.ResourceVersion != before.ResourceVersion || after.UID != before.UID {
		return nil, workView().ConflictError(before.Name)
	}
	return after, nil
}

// checkOnlySuspension returns an error if anything but spec.suspendDispatching changes. The
// status is the agent's, and ignored as in every update that is not one of it.
func checkOnlySuspension(before, after *v1alpha1.Work) error {
	var problems field.ErrorList
	refuse := func(path *field.Path) {
		problems = append(problems, field.Forbidden(path, "only spec.suspendDispatching of a Work can be changed; change what the Work is made of instead"))
	}
	spec := after.Spec
	spec.SuspendDispatching = before.Spec.SuspendDispatching
	if !equality.Semantic.DeepEqual(spec, before.Spec) {
		refuse(field.NewPath("spec"))
	}
	for name, differs := range map[string]bool{
		"labels":          !equality.Semantic.DeepEqual(before.Labels, after.Labels),
		"annotations":     !equality.Semantic.DeepEqual(before.Annotations, after.Annotations),
		"finalizers":      !equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers),
		"ownerReferences": len(after.OwnerReferences) > 0,
	} {
		if differs {
			refuse(field.NewPath("metadata", name))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Work").GroupKind(), before.Name, problems)
}

// patchSuspension writes the field to the ManifestWork that was read, which keeps it as an
// annotation.
func (s workSuspender) patchSuspension(ctx context.Context, from *workv1.ManifestWork, suspends *bool, dryRun []string) (*workv1.ManifestWork, error) {
	var value any // null removes it
	if suspends != nil {
		value = strconv.FormatBool(*suspends)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": from.UID, "resourceVersion": from.ResourceVersion, "annotations": map[string]any{workv1.AnnotationSuspendDispatching: value},
	}})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("encode the change of ManifestWork %q: %w", from.Name, err))
	}
	stored, err := s.in(clusterOfNamespace(request.NamespaceValue(ctx))).
		Patch(ctx, from.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldManager: fieldManager})
	if err != nil {
		return nil, workView().TranslateError(err, from.Name)
	}
	return stored, nil
}
