// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// signedBy reports whether the signer has signed the certificate in the secret.
func signedBy(t *testing.T, c client.Client, secret string, signer *CertificatePair) bool {
	t.Helper()
	return stored(t, c, secret).Certificate.CheckSignatureFrom(signer.Certificate) == nil
}

// steps returns what replaces a signer, by one step at a time. It does each of them
// twice: the second time changes nothing.
func steps(t *testing.T) (c client.Client, replace func(ReplacementStep) []*x509.Certificate) {
	t.Helper()
	r, c, _ := newRotator(t)
	return c, func(step ReplacementStep) []*x509.Certificate {
		t.Helper()
		r.Replacement = Replacement{Token: "one", Step: step}
		bundle, _, err := r.RotateCertificates(t.Context(), testServing, nil)
		expect.NoError(t, err)
		again, _, err := r.RotateCertificates(t.Context(), testServing, nil)
		if err != nil || string(again) != string(bundle) {
			t.Fatalf("step %d is not the same the second time (%v)", step, err)
		}
		return ParseBundle(bundle)
	}
}

func TestASignerIsReplacedStepByStep(t *testing.T) {
	c, replace := steps(t)
	leaf := testServing[0].Secret
	replace(Keep)
	old := stored(t, c, "signer-secret")

	if list := replace(Trust); len(list) != 2 || !containsCertificate(list, old.Certificate) {
		t.Fatalf("the bundle has %d signers, want the old and the new one", len(list))
	}
	if got := stored(t, c, "signer-secret"); !got.Certificate.Equal(old.Certificate) || !signedBy(t, c, leaf, old) {
		t.Error("the new signer signs before everybody trusts it")
	}
	if list := replace(Sign); len(list) != 2 {
		t.Errorf("the bundle has %d signers, want both while the new one takes over", len(list))
	}
	fresh := stored(t, c, "signer-secret")
	if fresh.Certificate.Equal(old.Certificate) || !signedBy(t, c, leaf, fresh) {
		t.Error("the new signer has not signed what the old one had")
	}
	if list := replace(Drop); len(list) != 1 || !list[0].Equal(fresh.Certificate) {
		t.Errorf("the bundle has %d signers, want the new one only", len(list))
	}
	if list := replace(Keep); len(list) != 1 {
		t.Errorf("afterwards the bundle has %d signers, want 1", len(list))
	}
}

func TestTheKeyOfAReplacedSignerIsDeleted(t *testing.T) {
	c, replace := steps(t)
	for step := range Drop + 1 {
		replace(step)
	}
	secret := &corev1.Secret{}
	expect.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: testNamespace, Name: "signer-secret"}, secret))
	if len(secret.Data) != 2 {
		t.Errorf("the secret has %d values, want nothing of the old signer", len(secret.Data))
	}
}

func TestAnOutdatedViewReplacesNoSignerTwice(t *testing.T) {
	c, replace := steps(t)
	for step := range Drop + 1 {
		replace(step)
	}
	fresh := stored(t, c, "signer-secret")
	replace(Trust)
	replace(Sign)
	if !stored(t, c, "signer-secret").Certificate.Equal(fresh.Certificate) {
		t.Error("a second signer was made for the same token")
	}
}

// TestASignerThatIsLostMeanwhileIsTrustedWithTheOld: what takes the place of a
// deleted secret is not what everybody has been told of.
func TestASignerThatIsLostMeanwhileIsTrustedWithTheOld(t *testing.T) {
	r, c, _ := newRotator(t)
	r.Replacement = Replacement{Token: "one", Step: Trust}
	if _, _, err := r.RotateCertificates(t.Context(), testServing, nil); err != nil {
		t.Fatal(err)
	}
	old := stored(t, c, "signer-secret")
	lost := &corev1.Secret{}
	lost.Namespace, lost.Name = r.Namespace, "signer-secret"
	expect.NoError(t, c.Delete(t.Context(), lost))
	for _, step := range []ReplacementStep{Sign, Drop} {
		r.Replacement.Step = step
		bundle, _, err := r.RotateCertificates(t.Context(), testServing, nil)
		expect.NoError(t, err)
		if list := ParseBundle(bundle); !containsCertificate(list, old.Certificate) {
			t.Errorf("step %d drops the old signer although nobody knows the new one", step)
		}
	}
}

// TestAReplacementSurvivesFailingWrites lets each write of each step fail once.
func TestAReplacementSurvivesFailingWrites(t *testing.T) {
	r, c, _ := newRotator(t)
	if _, _, err := r.RotateCertificates(t.Context(), testServing, nil); err != nil {
		t.Fatal(err)
	}
	fail := 0
	write := func() error {
		fail--
		if fail == 0 {
			return errors.New("the API server is away")
		}
		return nil
	}
	steady := r.Client
	r.Client = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := write(); err != nil {
				return err
			}
			return w.Update(ctx, o, options...)
		},
		Apply: func(ctx context.Context, w client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if err := write(); err != nil {
				return err
			}
			return w.Apply(ctx, o, options...)
		},
	})
	for _, step := range []ReplacementStep{Trust, Sign, Drop} {
		r.Replacement = Replacement{Token: "one", Step: step}
		for n := 1; ; n++ {
			fail = n
			if _, _, err := r.RotateCertificates(t.Context(), testServing, nil); err == nil {
				break
			}
			for _, leaf := range testServing {
				config := &corev1.ConfigMap{}
				expect.NoError(t, steady.Get(t.Context(), client.ObjectKey{Namespace: r.Namespace, Name: r.BundleConfigMap}, config))
				if !accepts([]byte(config.Data[BundleKey]), stored(t, c, leaf.Secret).Certificate, r.Clock.Now()) {
					t.Fatalf("step %d, write %d: %s is not accepted with the bundle", step, n, leaf.Secret)
				}
			}
		}
	}
	list := stored(t, c, "signer-secret")
	for _, leaf := range testServing {
		if !signedBy(t, c, leaf.Secret, list) {
			t.Errorf("%s is not of the new signer", leaf.Secret)
		}
	}
}
