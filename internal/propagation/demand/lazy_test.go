// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// configMap returns an object that a policy with ID id claims.
func configMap() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "a"},
		"metadata": map[string]any{
			"namespace": "shop", "name": "web", "resourceVersion": "6", "labels": map[string]any{policyv1alpha1.LabelPropagationPolicyID: "id"},
		},
	}}
}

// TestALazyPolicyWaitsForItsObject has one thing change after a policy was applied
// to an object.
func TestALazyPolicyWaitsForItsObject(t *testing.T) {
	type world struct {
		policy *policyv1alpha1.PropagationPolicy
		object *unstructured.Unstructured
		b      *workv1alpha2.ResourceBinding
	}
	write := func(w *world) { w.object.Object["data"] = map[string]any{"key": "b"} }
	unbound := func(w *world) { w.b.Spec.Placement = nil }
	unclaimed := func(w *world) { unbound(w); w.object.SetLabels(nil) }
	waiting := func(w *world) { unbound(w); w.object.SetAnnotations(w.b.Annotations) }
	for name, test := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"nothing but the policy": {func(*world) {}, true},
		"what kubectl remembers": {func(w *world) { w.object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}) }, true},
		"a version":              {func(w *world) { w.object.SetResourceVersion("9") }, true},
		"a generation":           {func(w *world) { w.object.SetGeneration(9) }, true},
		"a status":               {func(w *world) { w.object.Object["status"] = map[string]any{"a": "b"} }, true},
		"a label":                {func(w *world) { w.object.SetLabels(map[string]string{"tier": "front"}) }, false},
		"an annotation":          {func(w *world) { w.object.SetAnnotations(map[string]string{"a": "b"}) }, false},
		"the content":            {write, false},
		"it is lazy no more":     {func(w *world) { w.policy.Spec.ActivationPreference = "" }, false},
		"it takes over from one": {func(w *world) { w.policy.Labels = map[string]string{policyv1alpha1.LabelPropagationPolicyID: "other"} }, true},
		"it was not lazy":        {func(w *world) { w.b.Annotations = nil }, true},
		"the binding was lost":   {unbound, false},
		"the policy comes later": {unclaimed, true},
		"the policy came before": {func(w *world) { unclaimed(w); w.object.SetResourceVersion("8") }, false},
		"it waits for a change":  {waiting, true},
		"it waited for a change": {func(w *world) { waiting(w); write(w) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"}
			w := &world{
				policy: &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: claimed, ResourceVersion: "7"}},
				object: configMap(),
			}
			w.policy.Spec.ActivationPreference = policyv1alpha1.LazyActivation
			w.b = &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
				Labels: claimed, Annotations: map[string]string{AnnotationTemplate: ObjectFingerprint(w.object)},
			}}
			w.b.Spec.Placement = &policyv1alpha1.Placement{}
			test.change(w)
			if got := IsActivationPostponed(w.policy, w.object, w.b); got != test.want {
				t.Errorf("postponed: %t, want %t", got, test.want)
			}
		})
	}
}
