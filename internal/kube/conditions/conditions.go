// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions changes the conditions of an object in memory and writes
// its status with one request.
//
// It is not a condition framework: there is no summary and no polarity. What
// the conditions of a kind are, and who owns them, stands with the kind in
// apis.
package conditions

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MessageBytesMax is the limit that the API sets for the message of a condition.
const MessageBytesMax = 32768

// SetCondition sets a condition in the list and stamps it with the generation of the
// object that it describes. The transition time changes with the status only.
// A message that is too long is cut.
func SetCondition(list *[]metav1.Condition, generation int64, condition metav1.Condition) {
	condition.ObservedGeneration = generation
	condition.Message = ShortenText(condition.Message, MessageBytesMax)
	meta.SetStatusCondition(list, condition)
}

// ShortenText cuts a text to a number of bytes, at the end of a character.
func ShortenText(text string, limit int) string {
	const ending = "..."
	if len(text) <= limit {
		return text
	}
	cut := max(0, limit-len(ending))
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ending
}

// PatchStatus writes the status of after with one merge patch, if it differs
// from that of before, the object as it was read. The patch names the
// resourceVersion of before, so it fails with a conflict if someone else wrote
// in between: use it for a status that has one writer.
func PatchStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	same, err := sameStatus(before, after)
	if err != nil || same {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the status of %T %q: %w", after, qualifiedName(after), err)
	}
	return nil
}

// ApplyStatus applies the conditions of the given types, and no others, with
// server-side apply, for a status with several writers. Further fields of
// the status that this writer owns are in extra; it may be nil. The object
// has to exist.
func ApplyStatus(
	ctx context.Context, c client.Client, obj client.Object, owner string,
	conditions []metav1.Condition, extra map[string]any,
) error {
	status := map[string]any{}
	for key, value := range extra {
		status[key] = value
	}
	list := make([]any, 0, len(conditions))
	for i := range conditions {
		item, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i])
		if err != nil {
			return fmt.Errorf("encoding condition %q: %w", conditions[i].Type, err)
		}
		list = append(list, item)
	}
	status["conditions"] = list
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(gvk)
	u.SetName(obj.GetName())
	u.SetNamespace(obj.GetNamespace())
	u.SetUID(obj.GetUID())
	apply := client.ApplyConfigurationFromUnstructured(u)
	if err := c.Status().Apply(ctx, apply, client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying the status of %s %q: %w", gvk.Kind, qualifiedName(obj), err)
	}
	return nil
}

// SelectByType returns the conditions of the given types, in the order of the types.
func SelectByType(list []metav1.Condition, types ...string) []metav1.Condition {
	var found []metav1.Condition
	for _, t := range types {
		if i := slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == t }); i >= 0 {
			found = append(found, list[i])
		}
	}
	return found
}

func sameStatus(before, after client.Object) (bool, error) {
	b, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return false, fmt.Errorf("encoding %T: %w", before, err)
	}
	a, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return false, fmt.Errorf("encoding %T: %w", after, err)
	}
	return equality.Semantic.DeepEqual(b["status"], a["status"]), nil
}

// qualifiedName is NAMESPACE/NAME, or NAME for objects without a namespace.
func qualifiedName(obj client.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}
