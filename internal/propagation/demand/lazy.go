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

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// AnnotationTemplate on a binding tells which state of the object it was made
// from, if its policy is applied only when the object changes.
const AnnotationTemplate = "fleet.capstan.io/template"

// Postponed tells whether a change of the policy has to wait until the object
// itself changes.
func Postponed(policy policyv1alpha1.Policy, template metav1.Object, binding workv1alpha2.Binding) bool {
	return policy.PropagationSpec().ActivationPreference == policyv1alpha1.LazyActivation &&
		binding != nil && claims.Claims(policy, template) && claims.Claims(policy, binding) &&
		binding.GetAnnotations()[AnnotationTemplate] == Fingerprint(template)
}

// Fingerprint tells states of an object apart by what users change of it: its
// spec, labels and annotations.
func Fingerprint(object metav1.Object) string {
	state := map[string]any{
		"labels":      without(object.GetLabels(), claims.LabelKeys()...),
		"annotations": without(object.GetAnnotations(), append(claims.AnnotationKeys(), corev1.LastAppliedConfigAnnotation)...),
		"generation":  object.GetGeneration(),
	}
	if object.GetGeneration() == 0 { // kinds without a status, such as ConfigMap
		state["version"] = object.GetResourceVersion()
	}
	text, err := json.Marshal(state)
	if err != nil { // text and numbers only
		return strings.Join([]string{string(object.GetUID()), object.GetResourceVersion()}, "/")
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func without(all map[string]string, keys ...string) map[string]string {
	rest := maps.Clone(all)
	for _, key := range keys {
		delete(rest, key)
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}
