// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const heldCondition = fleetv1alpha1.ControlPlaneConditionHeld

// holdAs sets the annotation, or removes it.
func (h *harness) holdAs(value string) {
	h.t.Helper()
	cp := h.get()
	delete(cp.Annotations, fleetv1alpha1.AnnotationHold)
	if value != "" {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, fleetv1alpha1.AnnotationHold, value)
	}
	expect.NoError(h.t, h.admin.Update(h.t.Context(), cp))
}

// replicas expects the numbers of pods that the workloads ask for.
func (h *harness) replicas(etcd, server, manager int32) {
	h.t.Helper()
	set := &appsv1.StatefulSet{}
	h.read(set, home, name+fleetv1alpha1.ControlPlaneEtcdSuffix)
	got := [...]int32{
		*set.Spec.Replicas, *h.deployment(fleetv1alpha1.ControlPlaneAPIServerSuffix).Spec.Replicas,
		*h.deployment(fleetv1alpha1.ControlPlaneControllerManagerSuffix).Spec.Replicas,
	}
	if want := [...]int32{etcd, server, manager}; got != want {
		h.t.Errorf("etcd, API server and controller manager ask for %v pods, want %v", got, want)
	}
}

// leads reports whether the Service would lead clients to API servers.
func (h *harness) leads() bool {
	h.t.Helper()
	service := &corev1.Service{}
	h.read(service, home, name+fleetv1alpha1.ControlPlaneAPIServerSuffix)
	return service.Spec.Selector[fleetv1alpha1.LabelControlPlaneComponent] == manifests.APIServer
}

// TestAControlPlaneIsHeldWhileItsDataAreReplaced goes the way of a restore.
func TestAControlPlaneIsHeldWhileItsDataAreReplaced(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()

	h.holdAs(fleetv1alpha1.HoldStopped)
	running := h.pod(manifests.APIServer, "", "")
	h.walk()
	h.expect(heldCondition, no, fleetv1alpha1.ControlPlaneReasonStopped, "waiting for the 1 pods of apiserver")
	h.replicas(1, 0, 0)
	expect.NoError(t, h.admin.Delete(t.Context(), running, client.GracePeriodSeconds(0)))
	h.walk()
	h.etcdReady() // with none
	h.serverReady()
	h.managerReady()
	h.walk()
	h.expect(heldCondition, yes, fleetv1alpha1.ControlPlaneReasonStopped, "no pod of it runs")
	h.expect(fleetv1alpha1.ControlPlaneConditionAvailable, no, fleetv1alpha1.ControlPlaneReasonPodsNotReady, "")
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonStopped, "held by annotation fleet.capstan.io/hold=Stopped")
	h.replicas(0, 0, 0)
	denied := &networkingv1.NetworkPolicy{}
	h.read(denied, home, "hub-restore")
	if len(denied.Spec.Ingress)+len(denied.Spec.Egress) > 0 || len(denied.Spec.PolicyTypes) != 2 {
		t.Errorf("a pod that restores may connect: %+v", denied.Spec)
	}

	h.holdAs(fleetv1alpha1.HoldClosed)
	h.walk()
	h.etcdReady()
	h.walk()
	h.expect(heldCondition, no, fleetv1alpha1.ControlPlaneReasonClosed, "is being started")
	h.serverReady()
	h.walk()
	h.expect(heldCondition, yes, fleetv1alpha1.ControlPlaneReasonClosed, "no client is directed to it")
	h.replicas(1, 1, 0)
	if h.leads() {
		t.Error("clients are led to an API server that is closed")
	}
	server := h.deployment(fleetv1alpha1.ControlPlaneAPIServerSuffix).Spec.Template
	if !strings.Contains(strings.Join(server.Spec.Containers[0].Command, " "), "ValidatingAdmissionWebhook") || server.Annotations[manifests.ClosedAnnotation] == "" {
		t.Error("an API server that is closed calls webhooks, which cannot run without it")
	}

	// A pod that calls no webhooks is there for a while longer.
	pod := h.pod(manifests.APIServer, "", "")
	pod.Annotations = map[string]string{manifests.ClosedAnnotation: "true"}
	expect.NoError(t, h.admin.Update(t.Context(), pod))
	h.holdAs("")
	h.walk()
	h.serverReady()
	h.walk()
	if h.leads() {
		t.Error("clients are led to an API server that calls no webhooks")
	}
	expect.NoError(t, h.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	h.walk()
	h.managerReady()
	h.walk()
	h.replicas(1, 1, 1)
	if !h.leads() {
		t.Error("the API server stays closed")
	}
	cp := h.get()
	if held := meta.FindStatusCondition(cp.Status.Conditions, heldCondition); held != nil {
		t.Errorf("it is held no longer, and says %+v", held)
	}
	h.expect(fleetv1alpha1.ControlPlaneConditionAvailable, yes, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	if h.exists(&networkingv1.NetworkPolicy{}, home, "hub-restore") {
		t.Error("the NetworkPolicy of a restore is left behind")
	}
}

func TestAControlPlaneThatBeginsHeldMakesNothing(t *testing.T) {
	h := start(t)
	h.grant()
	h.create(&fleetv1alpha1.ControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Annotations: map[string]string{fleetv1alpha1.AnnotationHold: fleetv1alpha1.HoldStopped}},
		Spec:       fleetv1alpha1.ControlPlaneSpec{Etcd: fleetv1alpha1.ControlPlaneEtcd{Managed: &fleetv1alpha1.ControlPlaneManagedEtcd{}}},
	})
	h.walk()
	h.expect(heldCondition, yes, fleetv1alpha1.ControlPlaneReasonStopped, "")
	secrets := &corev1.SecretList{}
	if err := h.admin.List(t.Context(), secrets, client.InNamespace(home)); err != nil || len(secrets.Items) > 0 {
		t.Errorf("there are %d Secrets already (error %v)", len(secrets.Items), err)
	}
	h.holdAs("Forever")
	h.refuse()
	h.expect(degraded, yes, fleetv1alpha1.ControlPlaneReasonUnknownHold, "set it to Stopped or Closed, or remove it")
}
