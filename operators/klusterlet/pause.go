// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"

	"github.com/operator-framework/operator-lib/predicate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
)

// paused tells whether the Klusterlet is to be left alone. What counts as a yes
// is up to operator-lib, as with other operators.
func paused(klusterlet *operatorv1.Klusterlet) (bool, error) {
	running, err := predicate.NewPause[*operatorv1.Klusterlet](operatorv1.AnnotationPaused)
	if err != nil {
		return false, fmt.Errorf("reading annotation %q: %w", operatorv1.AnnotationPaused, err)
	}
	return !running.Generic(event.TypedGenericEvent[*operatorv1.Klusterlet]{Object: klusterlet}), nil
}

// pause shows in the status that the Klusterlet is left alone.
func (c *Controller) pause(ctx context.Context, klusterlet *operatorv1.Klusterlet) error {
	before := klusterlet.DeepCopy()
	conditions.Set(&klusterlet.Status.Conditions, klusterlet.Generation, metav1.Condition{
		Type: operatorv1.KlusterletConditionPaused, Status: metav1.ConditionTrue,
		Reason:  operatorv1.KlusterletReasonPausedByAnnotation,
		Message: fmt.Sprintf("nothing is changed as long as annotation %q says so", operatorv1.AnnotationPaused),
	})
	return conditions.PatchStatus(ctx, c.Client, before, klusterlet)
}

// resume removes the condition that pause has set.
func resume(klusterlet *operatorv1.Klusterlet) {
	meta.RemoveStatusCondition(&klusterlet.Status.Conditions, operatorv1.KlusterletConditionPaused)
}
