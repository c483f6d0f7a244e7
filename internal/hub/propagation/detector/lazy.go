// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/demand"
)

// postponeClaim lets a policy that has to wait until somebody changes the object claim
// it, but change nothing else, and reports whether that is so.
func (c *DetectionController) postponeClaim(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy, present lookup.Binding,
) (postponed bool, err error) {
	if !demand.IsLazyPolicy(policy) {
		return false, nil // or else the object need not be read before it is claimed
	}
	object, err := c.Objects.GetSince(ctx, key, template)
	if err != nil {
		return false, err
	}
	if decision.DecideActivation(object, decision.ObjectFacts{Policy: policy, Binding: present, Chain: c.Chain}).Code != decision.Postponed {
		return false, nil
	}
	seen := demand.ObjectFingerprint(object)
	if !demand.IsBoundByPolicy(present) {
		_, err := c.claimObject(ctx, key, template, policy, seen)
		return true, err
	}
	if _, err := c.claimObject(ctx, key, template, policy, ""); err != nil {
		return true, err
	}
	return true, c.binder.holdBinding(ctx, present, policy, seen)
}

// setTemplateAnnotation adds to changes of the annotations of an object that it has to have one which
// says how it was; "" is that it must not have it.
func setTemplateAnnotation(changes map[string]any, object metav1.Object, seen string) {
	switch has, is := object.GetAnnotations()[demand.AnnotationTemplate]; {
	case seen == "" && is:
		changes[demand.AnnotationTemplate] = nil
	case seen != has:
		changes[demand.AnnotationTemplate] = seen
	}
}

// holdBinding leaves a binding as it is until its object changes: it says only which policy
// waits, and for a change of what.
func (c bindingWriter) holdBinding(ctx context.Context, present lookup.Binding, policy policyv1alpha1.Policy, seen string) error {
	after := deepcopy.CopyObject(present)
	setClaimMarks(after, policy)
	annotations := after.GetAnnotations()
	annotations[demand.AnnotationTemplate] = seen
	after.SetAnnotations(annotations)
	if equality.Semantic.DeepEqual(present, after) {
		return nil
	}
	if err := c.patchBinding(ctx, present, after); err != nil {
		return err
	}
	c.Touched(client.ObjectKeyFromObject(present)) // what has changed in the object itself is sent
	return nil
}
