// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// recheck is how long a State is believed: a fence is not watched, as the role
// of an operator lets it read its own only.
const recheck = 5 * time.Minute

// FencingState says whether an operator is fenced in.
type FencingState struct {
	// Reason and Message are those of the condition Unfenced; Reason is
	// ReasonFenced if it is.
	Reason, Message string
}

// UnfencedCondition returns the condition Unfenced.
func (s FencingState) UnfencedCondition() metav1.Condition {
	c := metav1.Condition{Type: operatorv1.ConditionUnfenced, Status: metav1.ConditionTrue, Reason: s.Reason, Message: s.Message}
	if s.Reason == operatorv1.ReasonFenced {
		c.Status = metav1.ConditionFalse
	}
	return c
}

// PolicyInstaller makes the fence of the operator that it is part of, if there is none.
type PolicyInstaller struct {
	client client.Writer
	// reader reads past any cache: one would need a watch of all policies.
	reader client.Reader
	clock  clock.PassiveClock

	mu    sync.Mutex
	state FencingState
	until time.Time
}

// NewPolicyInstaller returns a PolicyInstaller that writes with the client and reads with the
// reader, which must not be a cache.
func NewPolicyInstaller(writer client.Writer, reader client.Reader, c clock.PassiveClock) *PolicyInstaller {
	return &PolicyInstaller{client: writer, reader: reader, clock: c}
}

// EnsureFence says whether the operator is fenced in, and sees to it if it may.
func (k *PolicyInstaller) EnsureFence(ctx context.Context, o FencedOperator) FencingState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock.Now().Before(k.until) {
		return k.state
	}
	k.state, k.until = k.inspectFence(ctx, o), k.clock.Now().Add(recheck)
	return k.state
}

func (k *PolicyInstaller) inspectFence(ctx context.Context, o FencedOperator) FencingState {
	policy := o.FencePolicy()
	binding := o.FenceBinding()
	for _, object := range []client.Object{policy, binding} {
		if err := k.getOrCreateObject(ctx, object); err != nil {
			return missingFenceState(o, err)
		}
	}
	if policyDiffers(policy, o.FencePolicy()) || !inForce(binding, o) {
		return FencingState{operatorv1.ReasonFenceChanged, fmt.Sprintf(
			"ValidatingAdmissionPolicy or ValidatingAdmissionPolicyBinding %q differs from this release, so it may not be effective: "+
				"delete both for the operator to recreate them, or apply the operator's manifests again", o.FenceName())}
	}
	return FencingState{operatorv1.ReasonFenced, fmt.Sprintf(
		"ValidatingAdmissionPolicy %q keeps the operator out of namespaces, accounts and Secrets that are not its own", o.FenceName())}
}

// getOrCreateObject replaces the object by that of the cluster, which it makes if need be.
func (k *PolicyInstaller) getOrCreateObject(ctx context.Context, object client.Object) error {
	wanted := deepcopy.CopyObject(object)
	err := k.reader.Get(ctx, client.ObjectKeyFromObject(object), object)
	if !apierrors.IsNotFound(err) {
		return err
	}
	err = k.client.Create(ctx, wanted)
	if apierrors.IsAlreadyExists(err) { // by another replica
		return k.reader.Get(ctx, client.ObjectKeyFromObject(object), object)
	}
	if err != nil {
		return err
	}
	return k.reader.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// missingFenceState is the state of an operator whose fence could not be found or made.
func missingFenceState(o FencedOperator, err error) FencingState {
	if !apierrors.IsForbidden(err) {
		return FencingState{operatorv1.ReasonFenceFailed, fmt.Sprintf("cannot determine whether the operator is fenced: %v", err)}
	}
	return FencingState{operatorv1.ReasonFenceForbidden, fmt.Sprintf(
		"a stolen token of ServiceAccount %q gives access to that of any other account, as nothing keeps it out of other namespaces: "+
			"apply the ValidatingAdmissionPolicy %q of the operator's manifests, or allow the account to create, and to get by that name, "+
			"validatingadmissionpolicies and validatingadmissionpolicybindings of admissionregistration.k8s.io",
		o.namespace+"/"+o.name, o.FenceName())}
}

// policyDiffers reports whether the policy found is another one than the wanted. What
// the API server fills in is not in what is compared.
func policyDiffers(found, wanted *admissionv1.ValidatingAdmissionPolicy) bool {
	return !equality.Semantic.DeepEqual(found.Spec.Validations, wanted.Spec.Validations) ||
		!equality.Semantic.DeepEqual(found.Spec.Variables, wanted.Spec.Variables) ||
		!equality.Semantic.DeepEqual(found.Spec.MatchConditions, wanted.Spec.MatchConditions) ||
		found.Spec.MatchConstraints == nil ||
		!equality.Semantic.DeepEqual(found.Spec.MatchConstraints.ResourceRules, wanted.Spec.MatchConstraints.ResourceRules) ||
		len(found.Spec.MatchConstraints.ExcludeResourceRules) > 0 ||
		!selectsEverything(found.Spec.MatchConstraints.NamespaceSelector) || !selectsEverything(found.Spec.MatchConstraints.ObjectSelector) ||
		!equality.Semantic.DeepEqual(found.Spec.FailurePolicy, wanted.Spec.FailurePolicy)
}

// inForce reports whether the binding puts the policy into force everywhere.
func inForce(found *admissionv1.ValidatingAdmissionPolicyBinding, o FencedOperator) bool {
	wanted := o.FenceBinding()
	return found.Spec.PolicyName == wanted.Spec.PolicyName && found.Spec.MatchResources == nil &&
		equality.Semantic.DeepEqual(found.Spec.ValidationActions, wanted.Spec.ValidationActions)
}

func selectsEverything(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}
