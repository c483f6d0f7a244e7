// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// propagating turns the gate of policies and bindings on.
func propagating(cm *operatorv1.ClusterManager) {
	cm.Spec.PlacementConfiguration = &operatorv1.PlacementConfiguration{FeatureGates: []operatorv1.FeatureGate{
		{Feature: "Propagation", Mode: operatorv1.FeatureGateModeEnable},
	}}
}

func propagation(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	admission := func(want bool) {
		t.Helper()
		for object, name := range map[client.Object]string{
			&admissionv1.MutatingWebhookConfiguration{}:   "propagationpolicies-mutators.admission.policy.karmada.io",
			&admissionv1.ValidatingWebhookConfiguration{}: "resourcebindings-validators.admission.work.karmada.io",
			&admissionv1.ValidatingAdmissionPolicy{}:      manifests.ProtectionName, &admissionv1.ValidatingAdmissionPolicyBinding{}: manifests.ProtectionName,
		} {
			if got := l.exists(t, object, name, ""); got != want {
				t.Errorf("%T is there: %t, want %t", object, got, want)
			}
		}
	}
	admission(false)
	for _, crd := range l.deps.Propagation {
		if l.exists(t, &apiextensionsv1.CustomResourceDefinition{}, crd.Name, "") {
			t.Errorf("%s is there without the gate", crd.Name)
		}
	}
	l.change(t, propagating)
	l.settle(t)
	for _, crd := range l.deps.Propagation {
		if !l.exists(t, &apiextensionsv1.CustomResourceDefinition{}, crd.Name, "") {
			t.Errorf("%s is missing", crd.Name)
		}
	}
	admission(true)
	l.writes = 0
	if _, err := l.pass(t); err != nil || l.writes != 0 {
		t.Errorf("a pass over a settled hub made %d writes: %v", l.writes, err)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.PlacementConfiguration = nil })
	l.settle(t)
	admission(false)
	for _, crd := range l.deps.Propagation {
		if !l.exists(t, &apiextensionsv1.CustomResourceDefinition{}, crd.Name, "") {
			t.Errorf("%s is gone with the gate, and all its objects with it", crd.Name)
		}
	}
	foreignPolicies(t, l)
}

// foreignPolicies has a definition that is there already and is somebody else's.
func foreignPolicies(t *testing.T, l *lab) {
	t.Helper()
	foreign := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, foreign, l.deps.Propagation[0].Name, "")
	foreign.Labels = map[string]string{"app": "karmada"}
	if err := l.client.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	l.change(t, propagating)
	if _, err := l.pass(t); err != nil {
		t.Fatal(err)
	}
	applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
	if applied.Reason != operatorv1.ClusterManagerReasonCRDApplyFailed || !strings.Contains(applied.Message, foreign.Name) {
		t.Errorf("Applied is %+v, want the name of the definition", applied)
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	if !l.exists(t, live, foreign.Name, "") || live.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the definition of somebody else was changed: %+v", live.ObjectMeta)
	}
}
