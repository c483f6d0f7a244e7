// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestOperatorInstallsPropertiesOnlyWithTheirGate(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	const definition, role = "clusterproperties.about.k8s.io", "open-cluster-management:klusterlet-registration:agent"
	mayRead := func() bool {
		r := &rbacv1.ClusterRole{}
		h.exists(r, "", role)
		return slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "clusterproperties") })
	}
	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	if err := h.admin.Get(t.Context(), client.ObjectKey{Name: definition}, &apiextensionsv1.CustomResourceDefinition{}); !apierrors.IsNotFound(err) {
		t.Errorf("the definition is there, although the gate is off: %v", err)
	}
	if mayRead() {
		t.Error("the agent may read properties, although the gate is off")
	}

	h.update("klusterlet", func(k *operatorv1.Klusterlet) {
		k.Spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "ClusterProperty", Mode: operatorv1.FeatureGateModeEnable}, {Feature: "MultipleHubs", Mode: operatorv1.FeatureGateModeEnable},
		}}
	})
	h.reconcile("klusterlet")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	h.exists(crd, "", definition)
	if !mayRead() {
		t.Error("the agent may not read properties, although the gate is on")
	}
	args := h.deployment(agentNamespace, "klusterlet-registration-agent").Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--feature-gates=ClusterProperty=true") || strings.Contains(strings.Join(args, " "), "MultipleHubs") {
		t.Errorf("the gate goes to the agent, and none that does nothing yet: %q", args)
	}
	got := h.expect("klusterlet", operatorv1.KlusterletConditionValidFeatureGates, metav1.ConditionTrue, operatorv1.ReasonFeatureGatesAllValid)
	if !strings.Contains(got.Message, "not yet implemented and without effect: MultipleHubs") {
		t.Errorf("the message %q does not name the gate that does nothing yet", got.Message)
	}

	crd.Spec.Names.ShortNames = []string{"theirs"}
	expect.NoError(t, h.admin.Update(t.Context(), crd))
	h.update("klusterlet", func(k *operatorv1.Klusterlet) {
		k.Spec.RegistrationConfiguration.FeatureGates[1].Mode = operatorv1.FeatureGateModeDisable
	})
	h.reconcile("klusterlet")
	h.exists(crd, "", definition)
	if !slices.Contains(crd.Spec.Names.ShortNames, "theirs") {
		t.Error("a definition that is another's was changed")
	}
}
