// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// preempted returns the policy that another one takes an object over from: it has
// claimed the object, and still matches it. It is nil if there is none.
func (c *Controller) preempted(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy,
) (policyv1alpha1.Policy, error) {
	if !c.Preempts || !claims.Claimed(template) {
		return nil, nil //nolint:nilnil // nobody takes over
	}
	policies, err := c.chooser.policies(ctx, key)
	if err != nil {
		return nil, err
	}
	from := claimant(template, policies)
	if from == nil || claims.ID(from) == claims.ID(policy) || c.chooser.selections.Of(from).Priority(template) == selector.None {
		return nil, nil //nolint:nilnil // the object is free
	}
	return from, nil
}

// tellPreemption says on an object which policy has taken it over from which, or
// that it could not. What another writer has come in between of is tried again.
func (d Deps) tellPreemption(template *metav1.PartialObjectMetadata, from, by policyv1alpha1.Policy, err error) {
	switch {
	case from == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
	case err != nil:
		d.tell(template, corev1.EventTypeWarning, reasonPreemptPolicyFailed, "%s could not take it over from %s: %v", named(by), named(from), err)
	default:
		d.tell(template, corev1.EventTypeNormal, reasonPreemptPolicySucceeded, "%s has taken it over from %s", named(by), named(from))
	}
}

// named returns a policy as messages name it.
func named(policy policyv1alpha1.Policy) string {
	kind := "PropagationPolicy"
	if policy.GetNamespace() == "" {
		kind = "ClusterPropagationPolicy"
	}
	return fmt.Sprintf("%s %q", kind, policy.GetName())
}
