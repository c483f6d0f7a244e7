// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// propagating turns the gate of policies and bindings on.
func propagating(cm *operatorv1.ClusterManager) {
	cm.Spec.PlacementConfiguration = &operatorv1.PlacementConfiguration{FeatureGates: []operatorv1.FeatureGate{
		{Feature: "Propagation", Mode: operatorv1.FeatureGateModeEnable},
	}}
}

func TestPropagationBringsItsDefinitions(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
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
	l.change(t, func(cm *operatorv1.ClusterManager) {
		propagating(cm)
		cm.Annotations = map[string]string{fleetv1alpha1.AnnotationSharedWorkBytesMax: "4Gi"}
	})
	l.settle(t)
	l.hasRoomForWorks(t, "cluster-manager-propagation-controller", "--shared-work-bytes-max=4Gi")
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
	for object, key := range ofPropagation() {
		if l.exists(t, object, key.Name, key.Namespace) {
			t.Errorf("%T %s is left", object, key)
		}
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionHubPropagationDegraded); got.Type != "" {
		t.Errorf("without the gate there is a condition %+v", got)
	}
}

// ofPropagation are the objects that are there with the gate only.
func ofPropagation() map[client.Object]client.ObjectKey {
	role, templates := client.ObjectKey{Name: "open-cluster-management:cluster-manager-propagation:controller"}, client.ObjectKey{Name: fleetv1alpha1.PropagationTemplatesRole}
	return map[client.Object]client.ObjectKey{
		&appsv1.Deployment{}:     {Namespace: testHubNS, Name: "cluster-manager-propagation-controller"},
		&corev1.ServiceAccount{}: {Namespace: testHubNS, Name: fleetv1alpha1.PropagationServiceAccount},
		&rbacv1.ClusterRole{}:    role, &rbacv1.ClusterRoleBinding{}: role,
		&rbacv1.ClusterRole{}: templates, &rbacv1.ClusterRoleBinding{}: templates,
	}
}

// TestPropagationLeavesAloneWhatIsNotItsOwn looks for the controller with its ClusterRole, whose rules are its own, and
// has a definition that is there already.
func TestPropagationLeavesAloneWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	l := teardownLabs.TakeFixture(t)
	l.hub(t, propagating)
	l.settle(t)
	for object, key := range ofPropagation() {
		if !l.exists(t, object, key.Name, key.Namespace) {
			t.Errorf("%T %s is missing", object, key)
		}
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionHubPropagationDegraded); got.Reason != operatorv1.ClusterManagerReasonPropagationFunctional {
		t.Errorf("the condition is %+v", got)
	}
	fenced := fence.TemplatesFence{}.FenceName()
	if !l.exists(t, &admissionv1.ValidatingAdmissionPolicy{}, fenced, "") || !l.exists(t, &admissionv1.ValidatingAdmissionPolicyBinding{}, fenced, "") {
		t.Error("the ClusterRole has no fence")
	}
	operator, err := client.New(l.restConfig, client.Options{Scheme: l.client.Scheme()})
	expect.NoError(t, err)
	if err := operator.Delete(t.Context(), fence.TemplatesFence{}.FencePolicy(), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the operator moves the fence: %v", err)
	}
	role := &rbacv1.ClusterRole{}
	l.exists(t, role, fleetv1alpha1.PropagationTemplatesRole, "")
	if len(role.Rules) != 0 {
		t.Errorf("the operator made the ClusterRole with rules: %v", role.Rules)
	}
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get"}}}
	role.Labels["example.com/more"] = "x"
	delete(role.Labels, operatorv1.LabelCreatedByClusterManager)
	expect.NoError(t, l.client.Update(t.Context(), role))
	l.settle(t)
	now := &rbacv1.ClusterRole{}
	l.exists(t, now, role.Name, "")
	if len(now.Rules) != 1 || now.Labels[operatorv1.LabelCreatedByClusterManager] == "" {
		t.Errorf("the operator has to leave the rules alone and nothing else: %+v", now)
	}

	// A definition is somebody else's.
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.PlacementConfiguration = nil })
	foreign := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, foreign, l.deps.Propagation[0].Name, "")
	ours := foreign.Labels
	foreign.Labels = map[string]string{"app": "karmada"}
	expect.NoError(t, l.client.Update(t.Context(), foreign))
	l.change(t, propagating)
	l.onePass(t)
	applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
	if applied.Reason != operatorv1.ClusterManagerReasonCRDApplyFailed || !strings.Contains(applied.Message, foreign.Name) {
		t.Errorf("Applied is %+v, want the name of the definition", applied)
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	if !l.exists(t, live, foreign.Name, "") || live.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the definition of somebody else was changed: %+v", live.ObjectMeta)
	}
	live.Labels = ours // the next test of the lab finds its own
	expect.NoError(t, l.client.Update(t.Context(), live))
}
