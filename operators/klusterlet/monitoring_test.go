// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/cluster"
)

// TestOperatorTellsWhyThereAreNoPodMonitors is without the definition of PodMonitors: what is made with it is
// tested where that is decided.
func TestOperatorTellsWhyThereAreNoPodMonitors(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) {
		k.Annotations = map[string]string{fleetv1alpha1.AnnotationMonitoring: fleetv1alpha1.MonitoringPodMonitor}
	})
	h.reconcile("klusterlet")
	h.expect("klusterlet", operatorv1.ConditionMonitored, metav1.ConditionFalse, operatorv1.ReasonPodMonitorUndefined)
	if !h.exists(&rbacv1.ClusterRole{}, "", "open-cluster-management:klusterlet-metrics-reader") {
		t.Error("there is no role for readers of metrics")
	}
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Annotations = nil })
	h.reconcile("klusterlet")
	if meta.FindStatusCondition(h.get("klusterlet").Status.Conditions, operatorv1.ConditionMonitored) != nil {
		t.Error("condition Monitored is there without the annotation")
	}
}

// TestPodMonitorOfTheOperatorStaysUntilTheLastKlusterletGoes has an API server of its
// own, as the definition would stay.
func TestPodMonitorOfTheOperatorStaysUntilTheLastKlusterletGoes(t *testing.T) {
	t.Parallel()
	h := start(t)
	if _, err := envtest.InstallCRDs(h.config, envtest.CRDInstallOptions{
		Paths: []string{"../../internal/operator/install/monitoring/testdata/podmonitors.yaml"}, MaxTime: establishPatience,
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(k *operatorv1.Klusterlet) {
		k.Annotations = map[string]string{fleetv1alpha1.AnnotationMonitoring: fleetv1alpha1.MonitoringPodMonitor}
	}
	const otherNamespace = "open-cluster-management-agent-other"
	h.klusterlet("klusterlet", ask)
	h.klusterlet("other", ask, func(k *operatorv1.Klusterlet) { k.Spec.Namespace = otherNamespace })
	for _, name := range []string{"klusterlet", "other"} {
		h.reconcile(name)
		h.expect(name, operatorv1.ConditionMonitored, metav1.ConditionFalse, operatorv1.ReasonPodMonitorsPending)
		h.reconcile(name)
		h.expect(name, operatorv1.ConditionMonitored, metav1.ConditionTrue, operatorv1.ReasonPodMonitorsApplied)
	}
	h.expectPodMonitors(map[string]bool{agentNamespace: true, otherNamespace: true, operatorNamespace: true})

	h.delete("klusterlet")
	h.reconcileDeleted("klusterlet")
	h.expectPodMonitors(map[string]bool{agentNamespace: false, otherNamespace: true, operatorNamespace: true})
	h.delete("other")
	h.reconcileDeleted("other")
	h.expectPodMonitors(map[string]bool{agentNamespace: false, otherNamespace: false, operatorNamespace: false})
}

// expectPodMonitors sees in which namespaces there are PodMonitors.
func (h *harness) expectPodMonitors(want map[string]bool) {
	h.t.Helper()
	monitors := map[client.ObjectKey]bool{}
	for namespace, there := range want {
		name := "capstan-agents"
		if namespace == operatorNamespace {
			name = "capstan-klusterlet"
		}
		monitors[client.ObjectKey{Namespace: namespace, Name: name}] = there
	}
	cluster.HasPodMonitors(h.t, h.admin, monitors)
}
