// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

// member makes a cluster of the hub with an agent that trusts the authorities;
// without a mode, one that reports nothing.
func (h *harness) member(name string, accepted bool, mode fleetv1alpha1.SyncMode, trusts ...string) {
	h.t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mc.Spec.HubAcceptsClient = accepted
	h.create(mc)
	if mode == "" {
		return
	}
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	connection.Spec.SyncMode = mode
	if mode == fleetv1alpha1.SyncModePush {
		connection.Spec.APIEndpoint = "https://" + name + ".example.com"
	}
	h.create(connection)
	h.trusts(name, trusts...)
}

// trusts reports what an agent trusts.
func (h *harness) trusts(name string, authorities ...string) {
	h.t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	h.read(connection, "", name)
	connection.Status.HubAuthorities = authorities
	expect.NoError(h.t, h.admin.Status().Update(h.t.Context(), connection))
}

// told returns the authorities that members are told of. They have to be so many,
// and the same ones as those in the kubeconfig for the host.
func (h *harness) told(want int) []string {
	h.t.Helper()
	info, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	h.read(info, metav1.NamespacePublic, "cluster-info")
	h.read(secret, kubeconfigs, operatorv1.ExternalHubKubeConfigSecret)
	bundle := func(kubeconfig []byte) []string {
		config, err := clientcmd.Load(kubeconfig)
		if err != nil || len(config.Clusters) != 1 {
			h.t.Fatalf("a kubeconfig is published with %d clusters: %v", len(config.Clusters), err)
		}
		var pins []string
		for _, cluster := range config.Clusters {
			pins = certs.PublicKeyPins(cluster.CertificateAuthorityData)
		}
		return pins
	}
	members, host := bundle([]byte(info.Data["kubeconfig"])), bundle(secret.Data["kubeconfig"])
	if len(members) != want || !slices.Equal(members, host) {
		h.t.Fatalf("members are told of the authorities %v and the host of %v, want %d", members, host, want)
	}
	return members
}

// TestTheAuthorityOfTheServerWaitsForAgents goes through all stages: nothing is
// signed before the agents of all members trust the new authority.
func TestTheAuthorityOfTheServerWaitsForAgents(t *testing.T) {
	const authority = manifests.ServingAuthority
	h := start(t)
	h.grant()
	h.class()
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Service.ExternalNames = []string{"hub.example.com"} })
	h.install()
	_, err := envtest.InstallCRDs(h.config, envtest.CRDInstallOptions{ErrorIfPathMissing: true, MaxTime: time.Minute, Paths: []string{
		"../../config/crd/cluster.open-cluster-management.io_managedclusters.yaml", "../../config/crd/fleet.capstan.io_clusterconnections.yaml",
	}})
	expect.NoError(t, err)
	old := h.signer(authority)
	h.member("pull", true, fleetv1alpha1.SyncModePull, certs.PublicKeyPin(old))
	h.member("push", true, fleetv1alpha1.SyncModePush)
	h.member("gone", true, "")
	h.member("applicant", false, "")

	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Rotation.ServingAuthority = "1" })
	h.walk()
	h.walk()
	h.runs()
	waiting := func(want fleetv1alpha1.RotationStage, text string) {
		t.Helper()
		result := h.walk()
		h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonRotating, text)
		h.inStage(rotation.ServingAuthority, want)
		if far := result.RequeueAfter > waitRetry; text != "" && !far {
			t.Errorf("while it waits for others it is looked at again after %s", result.RequeueAfter)
		}
	}
	waiting(rotation.Trust, "waiting for the agents of 2 clusters to trust the new one: gone, pull")
	if !h.signedBy("apiserver", old) {
		t.Error("the old authority does not sign any more")
	}
	h.trusts("pull", h.told(2)...)
	waiting(rotation.Trust, "waiting for the agents of 1 cluster to trust the new one: gone")
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Rotation.ServingAuthorityWithout = []string{"gone"} })
	h.walk()
	h.inStage(rotation.ServingAuthority, rotation.Trust) // as what runs on the host has to read the new authority
	h.clock.Step(rotation.ServingSettle)
	h.walk()
	h.walk()
	fresh := h.signer(authority)
	if fresh.Equal(old) || !h.signedBy("apiserver", fresh) || len(h.bundle(authority)) != 2 {
		t.Error("the new authority has not signed, or the old one is not trusted anymore")
	}
	h.runs()
	h.walk()
	h.walk()
	h.runs()
	h.walk()
	h.inStage(rotation.ServingAuthority, rotation.Complete)
	if told := h.told(1); told[0] != certs.PublicKeyPin(fresh) {
		t.Errorf("everybody is told of the authority %v, want the new one", told)
	}
}
