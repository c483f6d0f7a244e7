// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestALazyPolicyWaitsForItsObject has one thing change after a policy was applied
// to an object.
func TestALazyPolicyWaitsForItsObject(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*policyv1alpha1.PropagationPolicy, *metav1.PartialObjectMetadata)
		want   bool
	}{
		"nothing but the policy": {func(*policyv1alpha1.PropagationPolicy, *metav1.PartialObjectMetadata) {}, true},
		"what kubectl remembers": {func(_ *policyv1alpha1.PropagationPolicy, o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
		}, true},
		"a label": {func(_ *policyv1alpha1.PropagationPolicy, o *metav1.PartialObjectMetadata) { o.Labels["tier"] = "front" }, false},
		"an annotation": {func(_ *policyv1alpha1.PropagationPolicy, o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{"a": "b"}
		}, false},
		"the spec": {func(_ *policyv1alpha1.PropagationPolicy, o *metav1.PartialObjectMetadata) { o.Generation = 2 }, false},
		"it is lazy no more": {func(p *policyv1alpha1.PropagationPolicy, _ *metav1.PartialObjectMetadata) {
			p.Spec.ActivationPreference = ""
		}, false},
		"another policy's": {func(p *policyv1alpha1.PropagationPolicy, _ *metav1.PartialObjectMetadata) {
			p.Labels = map[string]string{policyv1alpha1.LabelPropagationPolicyID: "other"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"}
			policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: claimed}}
			policy.Spec.ActivationPreference = policyv1alpha1.LazyActivation
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web", Generation: 1, Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"},
			}}
			b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
				Labels: claimed, Annotations: map[string]string{AnnotationTemplate: Fingerprint(object)},
			}}
			test.change(policy, object)
			if got := Postponed(policy, object, b); got != test.want {
				t.Errorf("postponed: %t, want %t", got, test.want)
			}
		})
	}
}
