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
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// preemptedPolicy returns the policy that another one takes an object over from: it has
// claimed the object, and still matches it. It is nil if there is none.
func (c *DetectionController) preemptedPolicy(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy,
) (policyv1alpha1.Policy, error) {
	if !c.Preempts || !claims.HasClaimMarks(template) {
		return nil, nil //nolint:nilnil // nobody takes over
	}
	policies, err := c.chooser.candidatePolicies(ctx, key)
	if err != nil {
		return nil, err
	}
	from := claimingPolicy(template, policies)
	if from == nil || claims.PermanentPolicyID(from) == claims.PermanentPolicyID(policy) || c.chooser.selections.SelectorsOf(from).PriorityOf(template) == selector.None {
		return nil, nil //nolint:nilnil // the object is free
	}
	return from, nil
}

// recordPreemption says on an object which policy has taken it over from which, or
// that it could not. What another writer has come in between of is tried again.
func (d DetectionDeps) recordPreemption(template *metav1.PartialObjectMetadata, from, by policyv1alpha1.Policy, err error) {
	_, waits := conflict.RetryAfter(err)
	switch {
	case from == nil || waits || apierrors.IsNotFound(err):
	case err != nil:
		d.recordEvent(template, corev1.EventTypeWarning, reasonPreemptPolicyFailed, "%s could not take it over from %s: %v", policyDisplayName(by), policyDisplayName(from), err)
	default:
		d.recordEvent(template, corev1.EventTypeNormal, reasonPreemptPolicySucceeded, "%s has taken it over from %s", policyDisplayName(by), policyDisplayName(from))
	}
}

// policyDisplayName returns a policy as messages name it.
func policyDisplayName(policy policyv1alpha1.Policy) string {
	kind := "PropagationPolicy"
	if policy.GetNamespace() == "" {
		kind = "ClusterPropagationPolicy"
	}
	return fmt.Sprintf("%s %q", kind, policy.GetName())
}
