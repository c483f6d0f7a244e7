// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// serviceRange is where the Services of a cluster have their addresses: those of
// this machine, so that the test can stand for the proxies of the nodes.
const serviceRange = "127.77.0.0/24"

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
	dir := t.TempDir()
	programs := buildPrograms(t, dir)
	h := startHubOfOCM(t, dir, programs)
	c := startMember(t, dir, programs, modeSingleton)
	c.hub = h
	scene := func(t *testing.T, id string) *scene { return &scene{T: t, column: c, id: id} }

	h.limited(t, metav1.ConditionTrue)
	ok := t.Run("a cluster joins", func(t *testing.T) { joins(scene(t, "joins")) }) &&
		t.Run("its agent has its rights", func(t *testing.T) { rights(scene(t, "rights")) }) &&
		t.Run("a work is delivered and removed", func(t *testing.T) { worksUnderOCM(scene(t, "works")) })
	if !ok {
		return
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: c.clusterName()}, connection); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("there is a ClusterConnection, which nobody may have made: %v", err)
	}
	t.Run("with the rules of the documentation the rest is on", func(t *testing.T) {
		h.applyFile(t, "config/samples/ocm-chart/clusterrole.yaml")
		h.limited(t, metav1.ConditionFalse)
		eventually(t, "the cluster has a ClusterConnection", func() error {
			return h.client.Get(t.Context(), client.ObjectKey{Name: c.clusterName()}, connection)
		})
		eventually(t, "the agent tells there who its cluster is", func() error {
			if err := h.client.Get(t.Context(), client.ObjectKey{Name: c.clusterName()}, connection); err != nil {
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
func worksUnderOCM(s *scene) {
	s.namespace()
	s.deliver("one", `
workload:
  manifests:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: NS}, data: {key: value}}`)
	s.applied("one")
	s.has("one", "value")
	s.remove("one")
	s.hasNot("one")
}

// startHubOfOCM starts a cluster and has the operator make it a hub.
func startHubOfOCM(t testing.TB, dir, programs string) *hub {
	t.Helper()
	definitions, err := config.OperatorCRDs()
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{cluster: startCluster(t, dir, "hub", nil)}
	if _, err := envtest.InstallCRDs(h.config, envtest.CRDInstallOptions{CRDs: definitions[:1], MaxTime: patience}); err != nil {
		t.Fatal(err)
	}
	ports := map[string]int{}
	for _, name := range []string{"cluster-manager-registration-webhook", "cluster-manager-work-webhook"} {
		ports[name] = freePort(t)
	}
	health := freePort(t)
	h.pods = startPods(t, h.cluster, programs, func(deployment string) []string {
		switch port := ports[deployment]; {
		case port != 0:
			return []string{fmt.Sprintf("--port=%d", port), "--cert-dir=/tmp/k8s-webhook-server/serving-certs"}
		case deployment == "cluster-manager":
			return []string{fmt.Sprintf("--secure-health-probe-port=%d", health)} // 8443, if it were alone
		}
		return nil
	})
	h.applyFile(t, "test/testdata/ocm/cluster-manager.yaml")
	h.apply(t, operatorOfOCM)
	eventually(t, "the operator is well, as the chart asks it", func() error { return probe(t, health) })
	for name, port := range ports {
		h.proxy(t, name, port)
	}
	h.manager(t, "the hub is installed", func(cm *operatorv1.ClusterManager) bool {
		return meta.IsStatusConditionTrue(cm.Status.Conditions, operatorv1.ClusterManagerConditionApplied) &&
			meta.IsStatusConditionFalse(cm.Status.Conditions, operatorv1.ClusterManagerConditionHubRegistrationDegraded) &&
			cm.Status.ObservedGeneration == cm.Generation
	})
	h.bootstrap = h.kubeconfigOf(t, operatorv1.DefaultOperatorNamespace, operatorv1.BootstrapServiceAccount)
	h.works(t)
	return h
}

// probe asks as a kubelet does by the chart of OCM.
func probe(t testing.TB, port int) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s:%d/healthz", localhost, port), http.NoBody)
	if err != nil {
		return err
	}
	kubelet := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := kubelet.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

func (c *cluster) applyFile(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, string(text))
}

// limited waits until the condition FeaturesLimited has the status.
func (h *hub) limited(t testing.TB, want metav1.ConditionStatus) {
	t.Helper()
	h.manager(t, fmt.Sprintf("FeaturesLimited is %s", want), func(cm *operatorv1.ClusterManager) bool {
		return meta.IsStatusConditionPresentAndEqual(cm.Status.Conditions, operatorv1.ClusterManagerConditionFeaturesLimited, want)
	})
}

// manager waits until the ClusterManager is as it should be.
func (h *hub) manager(t testing.TB, what string, good func(*operatorv1.ClusterManager) bool) {
	t.Helper()
	eventually(t, what, func() error {
		cm := &operatorv1.ClusterManager{}
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: "cluster-manager"}, cm); err != nil {
			return err
		}
		if !good(cm) {
			return errors.New(encode(cm.Status.Conditions))
		}
		return nil
	})
}

// proxy leads from the address of a Service of the hub, once there is one, to a
// port of this machine, as the proxies of nodes do.
func (h *hub) proxy(t testing.TB, service string, port int) {
	t.Helper()
	found := &corev1.Service{}
	eventually(t, "Service "+service, func() error {
		return h.client.Get(t.Context(), client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: service}, found)
	})
	address := net.JoinHostPort(found.Spec.ClusterIP, fmt.Sprint(found.Spec.Ports[0].Port))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(t.Context(), from, fmt.Sprintf("%s:%d", localhost, port))
		}
	}()
}

// forward copies between a connection and another one, until either ends.
func forward(ctx context.Context, from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return // whoever called sees that, too
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
