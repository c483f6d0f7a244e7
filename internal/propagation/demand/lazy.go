// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/written"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// AnnotationTemplate tells how an object was when a lazy policy was applied to it,
// or began to wait for a change of it. The binding has it, and the object itself as
// long as it has no binding because of that.
const AnnotationTemplate = "fleet.capstan.io/template"

// IsLazyPolicy reports whether a policy waits for changes of the objects that it claims.
func IsLazyPolicy(policy policyv1alpha1.Policy) bool {
	return policy.PropagationSpec().ActivationPreference == policyv1alpha1.LazyActivation
}

// IsActivationPostponed reports whether a policy has to wait until somebody changes the object.
// A lazy one does, unless the object was changed after it.
func IsActivationPostponed(policy policyv1alpha1.Policy, object *unstructured.Unstructured, binding workv1alpha2.Binding) bool {
	if !IsLazyPolicy(policy) {
		return false
	}
	if IsBoundByPolicy(binding) { // what was applied before is kept, also if another policy did it
		seen := binding.GetAnnotations()[AnnotationTemplate]
		return seen == "" || seen == ObjectFingerprint(object)
	}
	if seen := object.GetAnnotations()[AnnotationTemplate]; seen != "" {
		return seen == ObjectFingerprint(object)
	}
	// What it has claimed had a binding, which was lost.
	return !claims.PolicyClaimsObject(policy, object) && writtenBefore(object, policy)
}

// IsBoundByPolicy reports whether a binding is by a policy: without one it only follows those
// that its object is needed by.
func IsBoundByPolicy(binding workv1alpha2.Binding) bool {
	return binding != nil && binding.BindingSpec().Placement != nil
}

// writtenBefore reports whether an object was written before a policy, as the API server
// counts what it stores. What is not stored yet is the latest.
func writtenBefore(object, policy metav1.Object) bool {
	if object.GetResourceVersion() == "" || policy.GetResourceVersion() == "" {
		return object.GetResourceVersion() != ""
	}
	return written.IsAfter(policy.GetResourceVersion(), object.GetResourceVersion())
}

// ObjectFingerprint returns what changes when somebody changes the object, and not when
// we or its status do. Its generation would not tell: that of a Deployment changes
// with our annotations, too, and a ConfigMap has none.
func ObjectFingerprint(object *unstructured.Unstructured) string {
	state := maps.Clone(object.Object)
	delete(state, "status")
	state["metadata"] = []any{
		withoutKeys(object.GetLabels(), claims.LabelKeys()...),
		withoutKeys(object.GetAnnotations(), append(claims.AnnotationKeys(), corev1.LastAppliedConfigAnnotation, AnnotationTemplate)...),
	}
	text, err := json.Marshal(state)
	if err != nil { // it was JSON
		return strings.Join([]string{string(object.GetUID()), object.GetResourceVersion()}, "/")
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func withoutKeys(all map[string]string, keys ...string) map[string]string {
	rest := maps.Clone(all)
	for _, key := range keys {
		delete(rest, key)
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}
