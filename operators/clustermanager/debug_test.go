// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const placementDeployment = "cluster-manager-placement-controller"

// debugGate turns the gate of the debug endpoint on.
func debugGate(cm *operatorv1.ClusterManager) {
	cm.Spec.PlacementConfiguration = &operatorv1.PlacementConfiguration{FeatureGates: []operatorv1.FeatureGate{
		{Feature: "PlacementDebugServer", Mode: operatorv1.FeatureGateModeEnable},
	}}
}

func TestDebugEndpointComesAndGoesWithItsGate(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, debugGate)
	l.settle(t)
	service := &corev1.Service{}
	if !l.exists(t, service, "cluster-manager-placement", testHubNS) || service.Spec.Ports[0].Port != 9443 {
		t.Errorf("the Service is %+v", service.Spec)
	}
	if !slices.ContainsFunc(l.get(t).Status.RelatedResources, func(r operatorv1.RelatedResourceMeta) bool {
		return r.Resource == "services" && r.Name == "cluster-manager-placement"
	}) {
		t.Error("relatedResources lack the Service")
	}
	secret := &corev1.Secret{}
	if !l.exists(t, secret, operatorv1.PlacementDebugServingCertSecret, testHubNS) {
		t.Fatal("there is no certificate")
	}
	pair, err := certs.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	expect.NoError(t, err)
	if err := pair.Certificate.VerifyHostname("cluster-manager-placement.open-cluster-management-hub.svc"); err != nil {
		t.Error(err)
	}
	if got := containers(l, t); !slices.Equal(got, []string{"placement-controller", "placement-debug"}) {
		t.Errorf("the containers are %q", got)
	}

	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.PlacementConfiguration = nil })
	l.settle(t)
	if l.exists(t, service, "cluster-manager-placement", testHubNS) {
		t.Error("the Service is left")
	}
	if l.exists(t, secret, operatorv1.PlacementDebugServingCertSecret, testHubNS) {
		t.Error("the certificate is left, and nobody renews it")
	}
	if got := containers(l, t); !slices.Equal(got, []string{"placement-controller"}) {
		t.Errorf("the containers are %q", got)
	}
}

func containers(l *lab, t testing.TB) []string {
	t.Helper()
	deployment := l.deployments(t)[placementDeployment]
	var names []string
	for _, c := range deployment.Spec.Template.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

// TestHostedDebugEndpointIsWhereThePodsAre is where the pods run, and reviews who asks on the hub.
func TestHostedDebugEndpointIsWhereThePodsAre(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.leadAs(t, installer)
	l.host(t, debugGate)
	l.settle(t)
	service := testName + "-placement"
	if !l.exists(t, &corev1.Service{}, service, testName) || l.onHub(t, &corev1.Service{}, service, testName) {
		t.Error("the Service is not on the cluster of the pods alone")
	}
	sidecar := l.deployments(t)[testName+"-placement-controller"].Spec.Template.Spec.Containers[1]
	if !slices.Contains(sidecar.Args, "--kubeconfig=/var/run/secrets/hub/kubeconfig") {
		t.Errorf("it does not work on the hub: %q", sidecar.Args)
	}
	if !slices.ContainsFunc(sidecar.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/var/run/secrets/hub" }) {
		t.Errorf("it has no kubeconfig of the hub: %+v", sidecar.VolumeMounts)
	}
}
