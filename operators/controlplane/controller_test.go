// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	yes, no  = metav1.ConditionTrue, metav1.ConditionFalse
	degraded = fleetv1alpha1.ControlPlaneConditionDegraded
)

// TestAControlPlaneIsInstalledStepByStep walks a ControlPlane through all phases,
// as the roles of the operator allow it.
func TestAControlPlaneIsInstalledStepByStep(t *testing.T) {
	h := start(t)
	h.plane()
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonMissingPermissions,
		"kubectl create rolebinding control-plane -n hub-control-plane --clusterrole=capstan:control-plane:namespace")

	h.grant()
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonStorageUnavailable, "no default StorageClass")

	h.class()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonInstalling, "waiting for etcd")
	h.expect(degraded, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	if h.exists(&appsv1.Deployment{}, home, "hub-apiserver") {
		t.Error("the API server is installed before etcd works")
	}

	h.etcdReady()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionEtcdReady, yes, fleetv1alpha1.ControlPlaneReasonAsExpected, "1 of 1")
	h.expect(fleetv1alpha1.ControlPlaneConditionAPIServerReady, no, fleetv1alpha1.ControlPlaneReasonPodsNotReady, "")

	h.serverReady()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionKubeconfigReady, yes, fleetv1alpha1.ControlPlaneReasonAsExpected, "hub/external-hub-kubeconfig")
	h.expect(fleetv1alpha1.ControlPlaneConditionAvailable, no, fleetv1alpha1.ControlPlaneReasonPodsNotReady, "ControllerManager")

	h.managerReady()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionAvailable, yes, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	h.expect(fleetv1alpha1.ControlPlaneConditionCertificatesValid, yes, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	cp := h.get()
	if cp.Status.Version != fleetv1alpha1.DefaultKubernetesVersion || cp.Status.Endpoint != "https://hub-apiserver.hub-control-plane.svc:6443" {
		t.Errorf("status has version %q and endpoint %q", cp.Status.Version, cp.Status.Endpoint)
	}
	if len(cp.Status.Certificates) != 10 {
		t.Errorf("status has %d certificates, want those of 4 authorities and of 6 others: %v", len(cp.Status.Certificates), cp.Status.Certificates)
	}

	// This is what others get.
	secret := &corev1.Secret{}
	h.read(secret, kubeconfigs, operatorv1.ExternalHubKubeConfigSecret)
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	expect.NoError(t, err)
	pair, err := certs.ParsePair(config.CertData, config.KeyData)
	expect.NoError(t, err)
	if got := pair.Certificate.Subject.Organization; len(got) != 1 || got[0] != fleetv1alpha1.ControlPlaneAdminsGroup {
		t.Errorf("the user of the kubeconfig is in the groups %v", got)
	}
	if config.Host != cp.Status.Endpoint || len(config.CAData) == 0 {
		t.Errorf("the kubeconfig leads to %q with %d bytes of authorities", config.Host, len(config.CAData))
	}
	admins := &rbacv1.ClusterRoleBinding{}
	h.read(admins, "", fleetv1alpha1.ControlPlaneAdminsGroup)
	info := &corev1.ConfigMap{}
	h.read(info, metav1.NamespacePublic, "cluster-info")
	if !strings.Contains(info.Data["kubeconfig"], cp.Status.Endpoint) {
		t.Errorf("cluster-info does not lead to the API server: %s", info.Data["kubeconfig"])
	}
	// For clients of Karmada there is a namespace for Secrets, which the hub's aggregated API server may read.
	const namespace = clusterv1alpha1.SecretsNamespace
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "member1"}})
	reader := env.ServiceAccountReview(kubeconfigs, fleetv1alpha1.APIServerServiceAccount)
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	env.WaitAllowed(t.Context(), t, h.config, reader, namespace, read, true)
	env.WaitAllowed(t.Context(), t, h.config, reader, metav1.NamespaceSystem, read, false)
	read.Verbs = []string{"list"}
	env.WaitAllowed(t.Context(), t, h.config, reader, namespace, read, false)
}

// TestASettledControlPlaneIsNotWritten reads the objects twice: an idle control
// plane costs its host no writes.
func TestASettledControlPlaneIsNotWritten(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()
	versions := func() map[string]string {
		found := map[string]string{"ControlPlane": h.get().ResourceVersion}
		for kind, list := range map[string]client.ObjectList{
			"Secrets": &corev1.SecretList{}, "ConfigMaps": &corev1.ConfigMapList{}, "Services": &corev1.ServiceList{},
			"Deployments": &appsv1.DeploymentList{}, "StatefulSets": &appsv1.StatefulSetList{}, "NetworkPolicies": &networkingv1.NetworkPolicyList{},
		} {
			expect.NoError(t, h.admin.List(t.Context(), list, client.InNamespace(home)))
			if err := meta.EachListItem(list, func(item runtime.Object) error {
				object := item.(client.Object)
				found[kind+" "+object.GetName()] = object.GetResourceVersion()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return found
	}
	before := versions()
	if result := h.walk(); result.RequeueAfter < waitRetry+time.Second {
		t.Errorf("a settled control plane is looked at again after %s", result.RequeueAfter)
	}
	for kind, version := range versions() {
		if before[kind] != version {
			t.Errorf("%s was written: from %s to %s", kind, before[kind], version)
		}
	}
	if len(h.connections) != 1 {
		t.Errorf("the operator connected %d times to the API server, want once", len(h.connections))
	}
}

func TestReplicasAndUpgrades(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Version = "v1.35.2" })
	h.install()

	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Replicas = 3 })
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonInstalling, "1 of 3")
	if !h.exists(&policyv1.PodDisruptionBudget{}, home, "hub-apiserver") {
		t.Error("several replicas have no PodDisruptionBudget")
	}
	h.serverReady()
	h.managerReady()
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Replicas = 1 })
	h.walk()
	if h.exists(&policyv1.PodDisruptionBudget{}, home, "hub-apiserver") {
		t.Error("a single replica has a PodDisruptionBudget, so its node could not be drained")
	}
	h.serverReady()
	h.managerReady()
	h.walk()

	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Version = "v1.37.0" })
	h.refuse()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonUnsupportedVersion, "upgrade to v1.36 first")
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Version = "v1.34.0" })
	h.refuse()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonUnsupportedVersion, "older minor version")

	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Version = "v1.36.3" })
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonUpgrading, "the API server")
	image := func(suffix string) string { return h.deployment(suffix).Spec.Template.Spec.Containers[0].Image }
	if got := image("-apiserver"); !strings.HasSuffix(got, ":v1.36.3") {
		t.Errorf("the API server runs %s", got)
	}
	if got := image("-controller-manager"); !strings.HasSuffix(got, ":v1.35.2") {
		t.Errorf("the controller manager runs %s before all API servers are new", got)
	}
	h.serverReady()
	former := h.pod(manifests.APIServer, "", "")
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonUpgrading, "and 1 with another image")
	if got := image("-controller-manager"); !strings.HasSuffix(got, ":v1.35.2") {
		t.Errorf("the controller manager runs %s while an older API server terminates", got)
	}
	h.remove(former)
	h.walk()
	if got := image("-controller-manager"); !strings.HasSuffix(got, ":v1.36.3") {
		t.Errorf("the controller manager runs %s", got)
	}
	if got := h.get().Status.Version; got != "v1.35.2" {
		t.Errorf("the version is %s before the upgrade is complete", got)
	}
	h.managerReady()
	h.walk()
	if got := h.get().Status.Version; got != "v1.36.3" {
		t.Errorf("the version is %s after the upgrade", got)
	}
}

func TestCertificatesAreRenewedAndKeysAreNot(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()
	data := func(name string) string {
		secret := &corev1.Secret{}
		h.read(secret, home, name)
		return string(flattenSecretData(secret.Data))
	}
	names := []string{"hub-apiserver", "hub-etcd-server", "hub-admin", "hub-serving-ca", "hub-client-ca", "hub-service-account", "hub-encryption"}
	before := map[string]string{}
	for _, n := range names {
		before[n] = data(n)
	}
	pods := h.deployment("-apiserver").Spec.Template.Annotations[manifests.HashAnnotation]
	kubeconfig := &corev1.Secret{}
	h.read(kubeconfig, kubeconfigs, operatorv1.ExternalHubKubeConfigSecret)

	h.clock.Step(certs.LeafLifetime - 4*24*time.Hour)
	h.walk()
	for _, n := range names {
		renewed := n == "hub-apiserver" || n == "hub-etcd-server" || n == "hub-admin"
		if (before[n] != data(n)) != renewed {
			t.Errorf("Secret %s was renewed: %v, want %v", n, !renewed, renewed)
		}
	}
	if got := h.deployment("-apiserver").Spec.Template.Annotations[manifests.HashAnnotation]; got != pods {
		t.Error("API servers restart because of a certificate, which they read again by themselves")
	}
	after := &corev1.Secret{}
	h.read(after, kubeconfigs, operatorv1.ExternalHubKubeConfigSecret)
	if string(after.Data["kubeconfig"]) == string(kubeconfig.Data["kubeconfig"]) {
		t.Error("the kubeconfig still has the old certificate")
	}
}

func TestMistakesSayWhatToDo(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()

	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "hub-etcd-ca"}})
	h.plane()
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonNameInUse, `Secret "hub-control-plane/hub-etcd-ca" exists already`)
	h.remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "hub-etcd-ca"}})

	h.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 1, NodePort: 30443}},
	}})
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Service.Type, s.Service.NodePort = corev1.ServiceTypeNodePort, 30443
	})
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonPortTaken, "30443")

	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Service.Type, s.Service.NodePort = corev1.ServiceTypeLoadBalancer, 0
		s.Audit = &fleetv1alpha1.ControlPlaneAudit{PolicyConfigMap: corev1.LocalObjectReference{Name: "audit"}}
	})
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonAuditPolicyMissing, `"hub-control-plane/audit"`)
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "audit"}, Data: map[string]string{"policy.yaml": "x"}})
	h.walk()

	pod := h.pod(manifests.Etcd, "ImagePullBackOff", "no such image")
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonImagePullFailed, "no such image; check spec.version")
	h.expect(fleetv1alpha1.ControlPlaneConditionEtcdReady, no, fleetv1alpha1.ControlPlaneReasonImagePullFailed, "")
	h.remove(pod)
	h.etcdReady()
	h.walk()
	h.serverReady()
	h.unreachable = errors.New("connection refused")
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonNotReachable, "connection refused")
	h.unreachable = nil
	h.remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: kubeconfigs, Name: binding}})
	h.granted(kubeconfigs, false)
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionKubeconfigReady, no, fleetv1alpha1.ControlPlaneReasonMissingPermissions,
		`reading Secret "hub/external-hub-kubeconfig"`)
	h.grant()
	// One of the same name in another namespace was here before.
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: kubeconfigs, Name: operatorv1.ExternalHubKubeConfigSecret,
		Labels: map[string]string{fleetv1alpha1.LabelControlPlane: name, fleetv1alpha1.LabelControlPlaneNamespace: "other"},
	}})
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionKubeconfigReady, no, fleetv1alpha1.ControlPlaneReasonNameInUse, "")
	h.remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kubeconfigs, Name: operatorv1.ExternalHubKubeConfigSecret}})
	h.walk()
	h.managerReady()
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonNoAddress, "spec.service.externalNames")

	service := &corev1.Service{}
	h.read(service, home, "hub-apiserver")
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.4"}}
	expect.NoError(t, h.admin.Status().Update(t.Context(), service))
	server := h.pod(manifests.APIServer, "", "")
	server.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	expect.NoError(t, h.admin.Status().Update(t.Context(), server))
	h.outdated = errors.New("certificate is valid for localhost")
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonInstalling, "certificate is valid for localhost")
	h.expect(degraded, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	if got := h.get().Status.Endpoint; got != "" {
		t.Errorf("the endpoint is %s before anybody has a certificate for it", got)
	}
	h.outdated = nil
	h.walk()
	h.expect(degraded, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	if got := h.get().Status.Endpoint; got != "https://192.0.2.4:6443" {
		t.Errorf("the endpoint is %s", got)
	}
}

func TestAnExternalEtcdNeedsAValidCredential(t *testing.T) {
	h := start(t)
	h.grant()
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: &fleetv1alpha1.ControlPlaneExternalEtcd{
			Endpoints: []string{"https://etcd.example.com:2379"}, SecretRef: fleetv1alpha1.SecretReference{Name: "credential"},
		}}
	})
	h.walk()
	const ready, invalid = fleetv1alpha1.ControlPlaneConditionEtcdReady, fleetv1alpha1.ControlPlaneReasonExternalEtcdInvalid
	h.expect(ready, no, invalid, `Secret "credential" does not exist`)

	long := h.clock.Now().Add(-60 * 24 * time.Hour)
	authority, err := certs.NewAuthority("etcd", long)
	expect.NoError(t, err)
	store := func(at time.Time) {
		pair, err := certs.NewLeaf(authority, certs.Leaf{User: "apiserver"}, at)
		expect.NoError(t, err)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "credential"}}
		_ = h.admin.Delete(t.Context(), secret.DeepCopy())
		secret.Data = map[string][]byte{"ca.crt": authority.CertPEM, "tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM}
		h.create(secret)
	}
	store(long)
	h.walk()
	h.expect(ready, no, invalid, "expired at")
	store(h.clock.Now())
	h.walk()
	h.serverReady()
	h.walk()
	h.managerReady()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionAvailable, yes, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	if h.exists(&appsv1.StatefulSet{}, home, "hub-etcd") {
		t.Error("an etcd was installed")
	}
}
