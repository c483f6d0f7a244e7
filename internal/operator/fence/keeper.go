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
)

// recheck is how long a State is believed: a fence is not watched, as the role
// of an operator lets it read its own only.
const recheck = 5 * time.Minute

// State says whether an operator is fenced in.
type State struct {
	// Reason and Message are those of the condition Unfenced; Reason is
	// ReasonFenced if it is.
	Reason, Message string
}

// Condition returns the condition Unfenced.
func (s State) Condition() metav1.Condition {
	c := metav1.Condition{Type: operatorv1.ConditionUnfenced, Status: metav1.ConditionTrue, Reason: s.Reason, Message: s.Message}
	if s.Reason == operatorv1.ReasonFenced {
		c.Status = metav1.ConditionFalse
	}
	return c
}

// Keeper makes the fence of the operator that it is part of, if there is none.
type Keeper struct {
	client client.Writer
	// reader reads past any cache: one would need a watch of all policies.
	reader client.Reader
	clock  clock.PassiveClock

	mu    sync.Mutex
	state State
	until time.Time
}

// NewKeeper returns a Keeper that writes with the client and reads with the
// reader, which must not be a cache.
func NewKeeper(writer client.Writer, reader client.Reader, c clock.PassiveClock) *Keeper {
	return &Keeper{client: writer, reader: reader, clock: c}
}

// State says whether the operator is fenced in, and sees to it if it may.
func (k *Keeper) State(ctx context.Context, o Operator) State {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock.Now().Before(k.until) {
		return k.state
	}
	k.state, k.until = k.look(ctx, o), k.clock.Now().Add(recheck)
	return k.state
}

func (k *Keeper) look(ctx context.Context, o Operator) State {
	policy := o.Policy()
	binding := o.Binding()
	for _, object := range []client.Object{policy, binding} {
		if err := k.find(ctx, object); err != nil {
			return lacking(o, err)
		}
	}
	if weaker(policy, o.Policy()) || !inForce(binding, o) {
		return State{operatorv1.ReasonFenceChanged, fmt.Sprintf(
			"ValidatingAdmissionPolicy or ValidatingAdmissionPolicyBinding %q differs from this release, so it may not be effective: "+
				"delete both for the operator to recreate them, or apply the operator's manifests again", o.Name())}
	}
	return State{operatorv1.ReasonFenced, fmt.Sprintf(
		"ValidatingAdmissionPolicy %q keeps the operator out of namespaces, accounts and Secrets that are not its own", o.Name())}
}

// find replaces the object by that of the cluster, which it makes if need be.
func (k *Keeper) find(ctx context.Context, object client.Object) error {
	wanted := object.DeepCopyObject().(client.Object)
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

// lacking is the state of an operator whose fence could not be found or made.
func lacking(o Operator, err error) State {
	if !apierrors.IsForbidden(err) {
		return State{operatorv1.ReasonFenceFailed, fmt.Sprintf("cannot determine whether the operator is fenced: %v", err)}
	}
	return State{operatorv1.ReasonFenceForbidden, fmt.Sprintf(
		"a stolen token of ServiceAccount %q gives access to that of any other account, as nothing keeps it out of other namespaces: "+
			"apply the ValidatingAdmissionPolicy %q of the operator's manifests, or allow the account to create, and to get by that name, "+
			"validatingadmissionpolicies and validatingadmissionpolicybindings of admissionregistration.k8s.io",
		o.namespace+"/"+o.name, o.Name())}
}

// weaker tells whether the policy found is another one than the wanted. What
// the API server fills in is not in what is compared.
func weaker(found, wanted *admissionv1.ValidatingAdmissionPolicy) bool {
	return !equality.Semantic.DeepEqual(found.Spec.Validations, wanted.Spec.Validations) ||
		!equality.Semantic.DeepEqual(found.Spec.Variables, wanted.Spec.Variables) ||
		!equality.Semantic.DeepEqual(found.Spec.MatchConditions, wanted.Spec.MatchConditions) ||
		found.Spec.MatchConstraints == nil ||
		!equality.Semantic.DeepEqual(found.Spec.MatchConstraints.ResourceRules, wanted.Spec.MatchConstraints.ResourceRules) ||
		len(found.Spec.MatchConstraints.ExcludeResourceRules) > 0 ||
		!everything(found.Spec.MatchConstraints.NamespaceSelector) || !everything(found.Spec.MatchConstraints.ObjectSelector) ||
		!equality.Semantic.DeepEqual(found.Spec.FailurePolicy, wanted.Spec.FailurePolicy)
}

// inForce tells whether the binding puts the policy into force everywhere.
func inForce(found *admissionv1.ValidatingAdmissionPolicyBinding, o Operator) bool {
	wanted := o.Binding()
	return found.Spec.PolicyName == wanted.Spec.PolicyName && found.Spec.MatchResources == nil &&
		equality.Semantic.DeepEqual(found.Spec.ValidationActions, wanted.Spec.ValidationActions)
}

func everything(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}
