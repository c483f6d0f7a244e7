// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestPrometheusFindsTheHubIfItAsks has the rights of the operator's role, which names its PodMonitors.
func TestPrometheusFindsTheHubIfItAsks(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	ask := func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{fleetv1alpha1.AnnotationMonitoring: fleetv1alpha1.MonitoringPodMonitor}
	}
	l.hub(t, ask)
	l.settle(t)
	if got := l.condition(t, operatorv1.ConditionMonitored); got.Reason != operatorv1.ReasonPodMonitorUndefined {
		t.Errorf("without the definition, condition Monitored is %+v", got)
	}
	if !l.exists(t, &rbacv1.ClusterRole{}, "open-cluster-management:cluster-manager-metrics-reader", "") {
		t.Error("there is no role for readers of metrics")
	}
	if _, err := envtest.InstallCRDs(l.adminConfig, envtest.CRDInstallOptions{
		Paths: []string{"../../internal/operator/install/monitoring/testdata/podmonitors.yaml"}, MaxTime: time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	l.settle(t)
	if got := l.condition(t, operatorv1.ConditionMonitored); got.Status != metav1.ConditionTrue {
		t.Errorf("with the definition, condition Monitored is %+v", got)
	}
	l.expectPodMonitors(t, true, true)

	hosted := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "hosted"}}
	hosted.Spec.DeployOption.Mode = operatorv1.InstallModeHosted
	ask(hosted)
	l.create(t, hosted)
	hosted.Status.Conditions = l.get(t).Status.Conditions
	expect.NoError(t, l.client.Status().Update(t.Context(), hosted))
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations = nil })
	l.settle(t)
	if got := l.condition(t, operatorv1.ConditionMonitored); got.Type != "" {
		t.Errorf("without the annotation, condition Monitored is %+v", got)
	}
	l.expectPodMonitors(t, false, true) // that of the operator is the other's, too
	expect.NoError(t, l.client.Delete(t.Context(), hosted))

	// What the status does not tell of would not be found again.
	l.change(t, ask)
	l.settle(t)
	if got := l.condition(t, operatorv1.ConditionMonitored); got.Reason != operatorv1.ReasonPodMonitorsPending {
		t.Errorf("before the PodMonitors are made, condition Monitored is %+v", got)
	}
	l.expectPodMonitors(t, false, true)
	l.settle(t)
	l.expectPodMonitors(t, true, true)
	l.clean(t)
	l.expectPodMonitors(t, false, false)
}

// expectPodMonitors sees whether the PodMonitors of the hub and of the operator are there.
func (l *lab) expectPodMonitors(t testing.TB, hub, operator bool) {
	t.Helper()
	cluster.HasPodMonitors(t, l.client, map[client.ObjectKey]bool{
		{Namespace: testHubNS, Name: "capstan-hub"}: hub, {Namespace: operatorv1.DefaultOperatorNamespace, Name: "capstan-cluster-manager"}: operator,
	})
}
