// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// testMonitoring is without the definition of PodMonitors: what is made with it is
// tested where that is decided.
func testMonitoring(t *testing.T, h *harness) {
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
