// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// newInstalled returns a host with a ready node, on which a ControlPlane is installed
// that says no more than it must.
func newInstalled(t *testing.T) *harness {
	t.Helper()
	h := start(t)
	h.grant()
	h.node("192.0.2.9")
	h.class()
	h.plane()
	h.install()
	return h
}

// TestTheOperatorDoesWhatTheSpecSays goes through fields that make more than
// manifests.
func TestTheOperatorDoesWhatTheSpecSays(t *testing.T) {
	h := start(t)
	h.grant()
	h.node("192.0.2.9")
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Etcd.Managed.Storage.ClassName = ptr.To("fast")
		s.KubeconfigSecret = &fleetv1alpha1.ControlPlaneSecretReference{Namespace: home, Name: "my-kubeconfig"}
	})
	h.walk()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonStorageUnavailable, `no StorageClass "fast"`)
	h.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/none"})
	h.install()
	if !h.exists(&corev1.Secret{}, home, "my-kubeconfig") || h.exists(&corev1.Secret{}, kubeconfigs, operatorv1.ExternalHubKubeConfigSecret) {
		t.Error("the kubeconfig is not in the Secret that the spec names")
	}
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Service = fleetv1alpha1.ControlPlaneService{Type: corev1.ServiceTypeNodePort, NodePort: 1}
	})
	if _, err := h.c.Reconcile(t.Context(), h.get()); err == nil {
		t.Error("a port that the host does not hand out is taken")
	}
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonApplyFailed, "not in the valid range")
	h.remove(h.get())
	h.walk()
	if h.exists(&corev1.Secret{}, home, "my-kubeconfig") {
		t.Error("the kubeconfig is left behind")
	}
}

// TestDefaultsAreThoseThatTheFieldsPromise creates a ControlPlane that says nothing.
func TestDefaultsAreThoseThatTheFieldsPromise(t *testing.T) {
	h := start(t)
	h.create(&fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}})
	want := fleetv1alpha1.ControlPlaneSpec{
		Version: fleetv1alpha1.DefaultKubernetesVersion, ImageRegistry: "registry.k8s.io", Replicas: 1,
		Etcd: fleetv1alpha1.ControlPlaneEtcd{Managed: &fleetv1alpha1.ControlPlaneManagedEtcd{
			Replicas: 1, Storage: fleetv1alpha1.ControlPlaneStorage{Size: "8Gi"}, DeletionPolicy: fleetv1alpha1.DeletionPolicyRetain,
		}},
		Service:         fleetv1alpha1.ControlPlaneService{Type: corev1.ServiceTypeClusterIP},
		Encryption:      fleetv1alpha1.ControlPlaneEncryption{Enabled: ptr.To(true)},
		NetworkPolicies: fleetv1alpha1.ControlPlaneNetworkPolicies{Enabled: ptr.To(true)},
	}
	if diff := cmp.Diff(want, h.get().Spec); diff != "" {
		t.Errorf("the defaults are not those that the fields promise (-want +got):\n%s", diff)
	}
}

// TestTheStatusListsTheCertificates compares the list in the status with the Secrets.
func TestTheStatusListsTheCertificates(t *testing.T) {
	h := newInstalled(t)
	listed := h.get().Status.Certificates
	for _, certificate := range listed {
		if authority := strings.HasSuffix(certificate.Name, "-ca"); certificate.Authority != authority {
			t.Errorf("the status says of %s that it is an authority: %t", certificate.Name, certificate.Authority)
		}
		if want := h.pair(certificate.Name).Certificate.NotAfter; !certificate.Expires.Time.Equal(want) {
			t.Errorf("the status says that %s expires at %s, want %s", certificate.Name, certificate.Expires, want)
		}
	}
	if !slices.ContainsFunc(listed, func(c fleetv1alpha1.ControlPlaneCertificate) bool { return c.Authority }) {
		t.Errorf("there is no authority among %v", listed)
	}
}

// TestEndpointsFollowTheService changes the Service, and looks each time for the endpoint
// in the status, and for a host in the certificate.
func TestEndpointsFollowTheService(t *testing.T) {
	h := newInstalled(t)
	for _, test := range []struct {
		reason     string
		change     func(*fleetv1alpha1.ControlPlaneService)
		want, host string
	}{
		{
			"a Service of the host is for those inside", func(*fleetv1alpha1.ControlPlaneService) {},
			"https://hub-apiserver.hub-control-plane.svc:6443", "hub-apiserver.hub-control-plane.svc",
		},
		{
			"the first name is the one that clients use", func(s *fleetv1alpha1.ControlPlaneService) {
				s.ExternalNames = []string{"hub.example.com", "192.0.2.7"}
			},
			"https://hub.example.com:6443", "192.0.2.7",
		},
		{
			"something in between maps ports", func(s *fleetv1alpha1.ControlPlaneService) { s.ExternalPort = 443 },
			"https://hub.example.com:443", "hub.example.com",
		},
		{
			"a port of a node is not that of the Service", func(s *fleetv1alpha1.ControlPlaneService) {
				*s = fleetv1alpha1.ControlPlaneService{Type: corev1.ServiceTypeNodePort, NodePort: 30444}
			},
			"https://192.0.2.9:30444", "192.0.2.9",
		},
	} {
		h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { test.change(&s.Service) })
		h.walk()
		cp := h.get()
		if cp.Status.Endpoint != test.want {
			t.Errorf("%s: the endpoint is %s, want %s", test.reason, cp.Status.Endpoint, test.want)
		}
		if cp.Status.ObservedGeneration != cp.Generation {
			t.Errorf("%s: the observed generation is %d, want %d", test.reason, cp.Status.ObservedGeneration, cp.Generation)
		}
		if err := h.pair("hub-apiserver").Certificate.VerifyHostname(test.host); err != nil {
			t.Errorf("%s: the certificate of the API server: %v", test.reason, err)
		}
	}
}

func TestNetworkPoliciesCanBeTurnedOff(t *testing.T) {
	h := newInstalled(t)
	if !h.exists(&networkingv1.NetworkPolicy{}, home, "hub-apiserver") {
		t.Error("there is no NetworkPolicy by default")
	}
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.NetworkPolicies.Enabled = ptr.To(false) })
	h.walk()
	for _, policy := range []string{"hub-apiserver", "hub-etcd", "hub-controller-manager"} {
		if h.exists(&networkingv1.NetworkPolicy{}, home, policy) {
			t.Errorf("NetworkPolicy %s is there though they are turned off", policy)
		}
	}
}

// node makes a ready node with an address.
func (h *harness) node(address string) {
	h.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	h.create(node)
	node.Status = corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
	}
	expect.NoError(h.t, h.admin.Status().Update(h.t.Context(), node))
}

// pair reads a certificate.
func (h *harness) pair(name string) *certs.CertificatePair {
	h.t.Helper()
	secret := &corev1.Secret{}
	h.read(secret, home, name)
	pair, err := certs.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	expect.NoError(h.t, err)
	return pair
}
