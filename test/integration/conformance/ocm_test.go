// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

// operatorOfOCM installs the operator of hubs as the chart of OCM does: with
// the role that is in a file beside, by the arguments of OCM's program.
const operatorOfOCM = `
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-public}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-manager, namespace: open-cluster-management}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ocm-cluster-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ocm-cluster-manager}
subjects: [{kind: ServiceAccount, name: cluster-manager, namespace: open-cluster-management}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-manager, namespace: open-cluster-management}
spec:
  selector: {matchLabels: {app: cluster-manager}}
  template:
    metadata: {labels: {app: cluster-manager}}
    spec:
      serviceAccountName: cluster-manager
      containers:
      - name: registration-operator
        image: capstan:conformance
        args: [/registration-operator, hub, --enable-sync-labels]
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - {name: AGENT_IMAGE, value: "capstan:conformance"}
---
apiVersion: operator.open-cluster-management.io/v1
kind: ClusterManager
metadata: {name: cluster-manager}
`

// TestUnderTheChartOfOCM makes a hub with nothing but the rights that OCM's chart
// gives its operator. A cluster joins and gets its works there as on any hub;
// once the operator gets the rest of its rights, the rest works, too.
func TestUnderTheChartOfOCM(t *testing.T) {
	env.Need(t)
	ctrl.SetLogger(logr.Discard())
	at := newSetting(t)
	h := startHubOfOCM(t, at)
	c := installation.StartMember(t, at, installation.ModeSingleton)
	c.Hub = h
	scene := func(t *testing.T, id string) *promises.Scene { return &promises.Scene{TB: t, Column: c, ID: id} }

	h.IsLimited(t, metav1.ConditionTrue)
	ok := t.Run("a cluster joins", func(t *testing.T) { promises.Joins(scene(t, "joins")) }) &&
		t.Run("its agent has its rights", func(t *testing.T) { promises.Rights(scene(t, "rights")) }) &&
		t.Run("a work is delivered and removed", func(t *testing.T) { worksUnderOCM(scene(t, "works")) })
	if !ok {
		return
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: c.ClusterName()}, connection); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("there is a ClusterConnection, which nobody may have made: %v", err)
	}
	t.Run("with the rules of the documentation the rest is on", func(t *testing.T) {
		h.ApplyFile(t, "config/samples/ocm-chart/clusterrole.yaml")
		h.IsLimited(t, metav1.ConditionFalse)
		installation.Eventually(t, "the cluster has a ClusterConnection", func() error {
			return h.Client.Get(t.Context(), client.ObjectKey{Name: c.ClusterName()}, connection)
		})
		installation.Eventually(t, "the agent tells there who its cluster is", func() error {
			if err := h.Client.Get(t.Context(), client.ObjectKey{Name: c.ClusterName()}, connection); err != nil {
				return err
			}
			if connection.Identity() == "" {
				return errors.New("it does not")
			}
			return nil
		})
	})
}

// worksUnderOCM delivers a work and removes it.
func worksUnderOCM(s *promises.Scene) {
	s.Namespace()
	s.Deliver("one", `
workload:
  manifests:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: NS}, data: {key: value}}`)
	s.Applied("one")
	s.Has("one", "value")
	s.Remove("one")
	s.HasNot("one")
}

// startHubOfOCM starts a cluster and has the operator make it a hub.
func startHubOfOCM(t testing.TB, at installation.Setting) *installation.Hub {
	t.Helper()
	definitions, err := config.OperatorCRDs()
	if err != nil {
		t.Fatal(err)
	}
	h := &installation.Hub{Cluster: installation.StartCluster(t, at, "hub", nil)}
	if _, err := envtest.InstallCRDs(h.Config, envtest.CRDInstallOptions{CRDs: definitions[:1], MaxTime: installation.Patience}); err != nil {
		t.Fatal(err)
	}
	ports := map[string]int{}
	for _, name := range []string{"cluster-manager-registration-webhook", "cluster-manager-work-webhook"} {
		ports[name] = installation.FreePort(t)
	}
	health := installation.FreePort(t)
	h.Pods = installation.StartPods(t, h.Cluster, at.Programs, func(deployment string) []string {
		switch port := ports[deployment]; {
		case port != 0:
			return []string{fmt.Sprintf("--port=%d", port), "--cert-dir=/tmp/k8s-webhook-server/serving-certs"}
		case deployment == "cluster-manager":
			return []string{fmt.Sprintf("--secure-health-probe-port=%d", health)} // 8443, if it were alone
		}
		return nil
	})
	h.ApplyFile(t, "test/testdata/ocm/cluster-manager.yaml")
	h.ApplyText(t, operatorOfOCM)
	installation.Eventually(t, "the operator is well, as the chart asks it", func() error { return installation.Probe(t, health) })
	for name, port := range ports {
		h.ProxyService(t, name, port)
	}
	h.StartOperator(t, "the hub is installed", func(cm *operatorv1.ClusterManager) bool {
		return meta.IsStatusConditionTrue(cm.Status.Conditions, operatorv1.ClusterManagerConditionApplied) &&
			meta.IsStatusConditionFalse(cm.Status.Conditions, operatorv1.ClusterManagerConditionHubRegistrationDegraded) &&
			cm.Status.ObservedGeneration == cm.Generation
	})
	h.Bootstrap = h.KubeconfigOf(t, operatorv1.DefaultOperatorNamespace, operatorv1.BootstrapServiceAccount)
	h.Works(t)
	return h
}
