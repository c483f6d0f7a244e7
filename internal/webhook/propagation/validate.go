// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// mistakesMax is how many mistakes one answer names. A list has as many as its author likes.
const mistakesMax = 20

// fieldMistakes are what is wrong with an object, each with its field.
type fieldMistakes = field.ErrorList

// objectValidator refuses objects of a kind that have mistakes.
type objectValidator[T client.Object] struct {
	kind schema.GroupKind
	// label has the ID that the object keeps for life; empty if it has none.
	label string
	// content is what check looks at.
	content func(T) any
	check   func(T) (admission.Warnings, fieldMistakes)
	// authorize tells what the author may not do; nil if everybody may.
	authorize func(context.Context, T) error
}

// ValidateCreate implements admission.Validator.
func (v *objectValidator[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	return v.validateObject(ctx, object)
}

// ValidateUpdate implements admission.Validator. What was there already is not
// refused later: its finalizers have to come off. Who changes anything of it, such
// as where objects are sent, counts as its author.
func (v *objectValidator[T]) ValidateUpdate(ctx context.Context, old, object T) (admission.Warnings, error) {
	if err := v.invalidError(object, v.sameID(old, object)); err != nil {
		return nil, err
	}
	if object.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(v.content(old), v.content(object)) {
		return nil, nil
	}
	return v.validateObject(ctx, object)
}

func (v *objectValidator[T]) validateObject(ctx context.Context, object T) (admission.Warnings, error) {
	warnings, wrong := v.check(object)
	if err := v.invalidError(object, wrong); err != nil || v.authorize == nil {
		return warnings, err
	}
	return warnings, v.authorize(ctx, object)
}

// ValidateDelete implements admission.Validator.
func (v *objectValidator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

// sameID refuses another ID: objects, bindings and works are known by it.
func (v *objectValidator[T]) sameID(old, object T) fieldMistakes {
	if v.label == "" {
		return nil
	}
	was := old.GetLabels()[v.label]
	is := object.GetLabels()[v.label]
	if was == "" || was == is {
		return nil
	}
	return fieldMistakes{field.Invalid(field.NewPath("metadata", "labels").Key(v.label), is,
		"the ID never changes, because what is in the clusters is found by it: leave it "+was)}
}

func (v *objectValidator[T]) invalidError(object T, wrong fieldMistakes) error {
	if len(wrong) == 0 {
		return nil
	}
	if more := len(wrong) - mistakesMax; more > 0 {
		wrong = append(wrong[:mistakesMax:mistakesMax], field.Forbidden(field.NewPath("spec"), fmt.Sprintf("%d more mistakes", more)))
	}
	return apierrors.NewInvalid(v.kind, object.GetName(), wrong)
}
