// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

func TestDataOutliveTheControlPlaneUnlessTheyAreToBeDeleted(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()
	h.claim("data-hub-etcd-0")
	h.remove(h.get())
	server, pod := h.pod(manifests.APIServer, "", ""), h.pod(manifests.Etcd, "", "")
	h.walk()
	if !h.exists(&appsv1.StatefulSet{}, home, "hub-etcd") {
		t.Error("etcd ends before the API servers that store in it")
	}
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonRemoving, "waiting for 1 pods")
	expect.NoError(t, h.admin.Delete(t.Context(), server, client.GracePeriodSeconds(0)))
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionDataRetained, yes, fleetv1alpha1.ControlPlaneReasonRetained, "data-hub-etcd-0")
	expect.NoError(t, h.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	h.walk()
	if h.exists(&fleetv1alpha1.ControlPlane{}, home, name) {
		t.Fatal("the ControlPlane is still there")
	}
	for _, kept := range []string{"hub-etcd-ca", "hub-serving-ca", "hub-client-ca", "hub-front-proxy-ca", "hub-service-account", "hub-encryption"} {
		if !h.exists(&corev1.Secret{}, home, kept) {
			t.Errorf("Secret %s is gone", kept)
		}
	}
	for what, gone := range map[string]client.Object{
		"hub-apiserver": &appsv1.Deployment{}, "hub-etcd": &appsv1.StatefulSet{}, "hub-admin": &corev1.Secret{}, "hub-controller-manager": &corev1.Secret{},
	} {
		if h.exists(gone, home, what) {
			t.Errorf("%T %s is left behind", gone, what)
		}
	}
	if h.exists(&corev1.Secret{}, kubeconfigs, operatorv1.ExternalHubKubeConfigSecret) {
		t.Error("the kubeconfig is left behind")
	}
	h.announced("data-hub-etcd-0")

	// One of the same name goes on with the data, unless it could not.
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Etcd.Managed.Replicas = 3 })
	h.refuse()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonRetainedDataMismatch, "spec.etcd.managed.replicas to 1")
	h.remove(h.get())
	h.walk()
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Etcd.Managed.DeletionPolicy = fleetv1alpha1.DeletionPolicyDelete
	})
	h.install()
	h.remove(h.get())
	h.walk()
	data := &corev1.PersistentVolumeClaim{}
	h.read(data, home, "data-hub-etcd-0")
	data.Finalizers = nil // as a controller takes it off elsewhere
	expect.NoError(t, h.admin.Update(t.Context(), data))
	h.walk()
	secrets := &corev1.SecretList{}
	expect.NoError(t, h.admin.List(t.Context(), secrets, client.InNamespace(home)))
	if len(secrets.Items) > 0 || h.exists(&corev1.PersistentVolumeClaim{}, home, "data-hub-etcd-0") {
		t.Errorf("%d Secrets or the data are left behind", len(secrets.Items))
	}
}

// claim makes what a StatefulSet makes.
func (h *harness) claim(name string) {
	h.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Labels: manifests.Plane{Name: "hub"}.PodLabels(manifests.Etcd)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
}

// announced fails the test unless an event has the text.
func (h *harness) announced(text string) {
	h.t.Helper()
	for {
		select {
		case event := <-h.recorder.Events:
			if strings.Contains(event, text) {
				return
			}
		default:
			h.t.Fatalf("no event says %q", text)
		}
	}
}
