// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

// stage returns how far a rotation is.
func (h *harness) stage(name string) rotation.State {
	h.t.Helper()
	if state := rotation.FindRotation(h.get().Status.Rotations, name); state != nil {
		return *state
	}
	return rotation.State{}
}

// inStage expects the rotation of an authority, which is the first one, to be in a stage.
func (h *harness) inStage(authority string, want fleetv1alpha1.RotationStage) {
	h.t.Helper()
	if got := h.stage(authority); got.Stage != want || got.Token != "1" {
		h.t.Fatalf("the rotation is in stage %q (%s), want %q", got.Stage, got.Message, want)
	}
}

// runs makes all pods be as they are wanted.
func (h *harness) runs() {
	h.t.Helper()
	h.etcdReady()
	h.serverReady()
	h.managerReady()
}

func (h *harness) signer(authority string) *x509.Certificate {
	h.t.Helper()
	secret := &corev1.Secret{}
	h.read(secret, home, name+"-"+authority)
	list := certs.ParseBundle(secret.Data[corev1.TLSCertKey])
	if len(list) != 1 {
		h.t.Fatalf("Secret %s has %d certificates", secret.Name, len(list))
	}
	return list[0]
}

func (h *harness) bundle(authority string) []*x509.Certificate {
	h.t.Helper()
	config := &corev1.ConfigMap{}
	h.read(config, home, name+"-"+authority)
	return certs.ParseBundle([]byte(config.Data[certs.BundleKey]))
}

func (h *harness) signedBy(secret string, signer *x509.Certificate) bool {
	h.t.Helper()
	object := &corev1.Secret{}
	h.read(object, home, name+"-"+secret)
	return certs.ParseBundle(object.Data[corev1.TLSCertKey])[0].CheckSignatureFrom(signer) == nil
}

// publish does what the API servers of the hub do: they tell aggregated API
// servers of whom they trust, and add to what is there.
func (h *harness) publish(authority, key string) {
	h.t.Helper()
	config := &corev1.ConfigMap{}
	h.read(config, metav1.NamespaceSystem, publishedAuthorities)
	if config.Data == nil {
		config.Data = map[string]string{}
	}
	list := certs.ParseBundle([]byte(config.Data[key]))
	for _, cert := range h.bundle(authority) {
		if !slices.ContainsFunc(list, cert.Equal) {
			list = append(list, cert)
		}
	}
	config.Data[key] = string(certs.EncodeBundle(list))
	expect.NoError(h.t, h.admin.Update(h.t.Context(), config))
}

// TestTheAuthorityOfClientsIsRotatedInStages goes through all stages and looks at
// what each of them changes, and at what it waits for.
func TestTheAuthorityOfClientsIsRotatedInStages(t *testing.T) {
	const authority, key = manifests.ClientAuthority, "client-ca-file"
	h := start(t)
	h.grant()
	h.class()
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Rotation.EtcdAuthority = "at first" })
	h.install()
	if got := h.stage(rotation.EtcdAuthority); got.Stage != rotation.Complete {
		t.Errorf("a new control plane rotates what is new: %+v", got)
	}
	old := h.signer(authority)

	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Rotation.ClientAuthority, s.Rotation.ClientAuthorityGrace = "1", &metav1.Duration{Duration: time.Hour}
	})
	h.walk()
	h.inStage(rotation.ClientAuthority, rotation.Trust)
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonRotating, "the API server")
	h.runs()
	pod := h.pod(manifests.APIServer, "", "")
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonRotating,
		"rotating clientAuthority, stage Trust: waiting for pods that run with what was before: "+pod.Name)
	h.expect(degraded, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	h.remove(pod)
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, yes, fleetv1alpha1.ControlPlaneReasonRotating, "kube-system/"+publishedAuthorities)
	if !h.signer(authority).Equal(old) || !h.signedBy("admin", old) || len(h.bundle(authority)) != 2 {
		t.Error("the new authority signs although not everybody trusts it, or it is not in the bundle")
	}

	h.publish(authority, key)
	h.walk()
	h.inStage(rotation.ClientAuthority, rotation.Sign)
	h.walk()
	fresh := h.signer(authority)
	if fresh.Equal(old) || !h.signedBy("admin", fresh) || !h.signedBy("controller-manager", fresh) || len(h.bundle(authority)) != 2 {
		t.Error("the new authority has not signed everything, or the old one is not trusted anymore")
	}
	h.runs()
	h.walk()
	h.inStage(rotation.ClientAuthority, rotation.Wait)
	if result := h.walk(); result.RequeueAfter < waitRetry+time.Second {
		t.Errorf("while it waits for others it is looked at again after %s", result.RequeueAfter)
	}
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	h.clock.Step(time.Hour)
	h.walk()
	h.inStage(rotation.ClientAuthority, rotation.Drop)
	h.walk()
	if list := h.bundle(authority); len(list) != 1 || !list[0].Equal(fresh) {
		t.Errorf("there are %d authorities in the bundle, want the new one only", len(list))
	}
	h.publish(authority, key)
	h.runs()
	h.walk()
	h.inStage(rotation.ClientAuthority, rotation.Complete)
	published := &corev1.ConfigMap{}
	h.read(published, metav1.NamespaceSystem, publishedAuthorities)
	if list := certs.ParseBundle([]byte(published.Data[key])); slices.ContainsFunc(list, old.Equal) || !slices.ContainsFunc(list, fresh.Equal) {
		t.Error("aggregated API servers are told to trust the old authority, or not to trust the new one")
	}
	h.runs()
	h.walk()
	h.expect(fleetv1alpha1.ControlPlaneConditionProgressing, no, fleetv1alpha1.ControlPlaneReasonAsExpected, "")
	for _, text := range []string{"stage Trust begins", "stage Sign begins", "stage Wait begins", "stage Drop begins"} {
		h.announced(fleetv1alpha1.ControlPlaneReasonRotating + " clientAuthority: " + text)
	}
	h.announced(fleetv1alpha1.ControlPlaneReasonRotated + " clientAuthority: only the new one is in use")
}

// TestARotationGoesOnWhereItFailed lets every write of every walk fail once. No
// certificate may ever be one that the published bundle does not verify, and there
// may be one new authority, and one new key, only.
func TestARotationGoesOnWhereItFailed(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Rotation.EtcdAuthority, s.Rotation.FrontProxyAuthority, s.Rotation.EncryptionKeys = "1", "1", "1"
		s.Rotation.ServingAuthority = "1"
	})
	writes := 0 // until one fails
	deps := h.c.ControllerDeps
	deps.Client = cluster.BeforeWrites(h.client(h.operator), func() error {
		if writes--; writes == 0 {
			return errors.New("the API server is away")
		}
		return nil
	})
	signers := map[string]bool{}
	done := func() bool {
		states := h.get().Status.Rotations
		return len(states) == 4 && !slices.ContainsFunc(states, func(s rotation.State) bool { return s.Stage != rotation.Complete })
	}
	for walks := 0; !done(); walks++ {
		if walks > 200 {
			t.Fatalf("the rotations do not come to an end: %+v", h.get().Status.Rotations)
		}
		for n := 1; ; n++ {
			h.c = NewControlPlaneController(deps) // as after a crash
			writes = n
			_, err := h.c.Reconcile(t.Context(), h.get())
			for authority, leaves := range map[string][]string{
				manifests.EtcdAuthority: {"etcd-server", "etcd-client"}, manifests.FrontProxyAuthority: {"front-proxy-client"},
				manifests.ServingAuthority: {"apiserver"},
			} {
				signers[string(h.signer(authority).Raw)] = true
				for _, leaf := range leaves {
					if !slices.ContainsFunc(h.bundle(authority), func(c *x509.Certificate) bool { return h.signedBy(leaf, c) }) {
						t.Fatalf("walk %d, write %d: %s is of an authority that nobody trusts", walks, n, leaf)
					}
				}
			}
			if err == nil && writes > 0 {
				break
			}
		}
		h.runs()
		h.publish(manifests.FrontProxyAuthority, "requestheader-client-ca-file")
		h.clock.Step(time.Minute)
	}
	if len(signers) != 6 {
		t.Errorf("there were %d authorities, want an old and a new one of each", len(signers))
	}
	if names := encryptionOrder(h.keysOf("-encryption"), rotation.Complete); len(names) != 1 || names[0] != "key2" {
		t.Errorf("the keys are %v, want the second one only", names)
	}
}
