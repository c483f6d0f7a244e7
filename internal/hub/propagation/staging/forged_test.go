// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestAForgedBindingJoinsNoRollout has bindings with the marks of a policy that has a
// rollout, as anybody can write them: only that of an object which the policy sends joins.
func TestAForgedBindingJoinsNoRollout(t *testing.T) {
	own := func(id, namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Labels:      map[string]string{policyv1alpha1.LabelPropagationPolicyID: id},
			Annotations: map[string]string{policyv1alpha1.AnnotationPropagationPolicyNamespace: namespace, policyv1alpha1.AnnotationPropagationPolicyName: name},
		}
	}
	wide := metav1.ObjectMeta{
		Labels:      map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "wides"},
		Annotations: map[string]string{policyv1alpha1.AnnotationClusterPropagationPolicyName: "wide"},
	}
	for what, test := range map[string]struct {
		marks                   metav1.ObjectMeta
		namespace, name, object string
		joins                   bool
	}{
		"sent by the policy":           {own("webs", "shop", "web"), "shop", "web-deployment", "web", true},
		"with another ID":              {own("forged", "shop", "web"), "shop", "web-deployment", "web", false},
		"under another name":           {own("webs", "shop", "web"), "shop", "forged", "web", false},
		"of what it does not select":   {own("webs", "shop", "web"), "shop", "other-deployment", "other", false},
		"in another namespace":         {own("webs", "shop", "web"), "tenant", "web-deployment", "web", false},
		"sent by a cluster's policy":   {wide, "shop", "web-deployment", "web", true},
		"of what that does not select": {wide, "tenant", "web-deployment", "web", false},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHub(t)
			policy := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide", Labels: wide.Labels}}
			policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop"}}
			rollout := &fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: metav1.ObjectMeta{Name: "wide", UID: "w", Generation: 1}, Spec: h.rollout.Spec}
			rollout.Spec.Policy = &fleetv1alpha1.RolloutPolicy{Name: "wide"}
			if err := errors.Join(h.Create(t.Context(), policy), h.stages.SetRollout(t.Context(), rollout)); err != nil {
				t.Fatal(err)
			}
			b := &workv1alpha2.ResourceBinding{ObjectMeta: test.marks}
			b.Namespace, b.Name = test.namespace, test.name
			b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: test.namespace, Name: test.object}
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": test.namespace, "name": test.object},
			}}
			if _, err := h.stages.StageWorks(t.Context(), StageInput{Binding: b, Source: deliver.WorkSource{Binding: b, Object: object}}); err != nil {
				t.Fatal(err)
			}
			if joined := h.stages.governed[parseBindingName(test.namespace+"/"+test.name)] != (RolloutKey{}); joined != test.joins {
				t.Errorf("the binding joins a rollout: %t, want %t", joined, test.joins)
			}
		})
	}
}
