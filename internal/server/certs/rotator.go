// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BundleKey is the key of the ConfigMap that has the bundle.
const BundleKey = "ca-bundle.crt"

// Keys of the signer's secret for the signer before the present one.
const (
	previousCertKey = "previous.crt"
	previousKeyKey  = "previous.key"
)

// Rotator makes and renews the certificates of a namespace.
type Rotator struct {
	// Client writes. Reader reads, past any cache: a decision from an old state
	// could drop a signer.
	Client client.Client
	Reader client.Reader
	Clock  clock.PassiveClock
	// Owner is the field owner of what is applied.
	Owner string
	// Namespace and Labels of everything that is made.
	Namespace string
	Labels    map[string]string
	// SignerSecret and BundleConfigMap are the names of the objects that have
	// the signer, as a TLS secret, and the bundle.
	SignerSecret, BundleConfigMap string
	// SignerLifetime is how long a signer is valid. Defaults to AuthorityLifetime.
	SignerLifetime time.Duration
	// Replacement asks for another signer before its time. Defaults to none.
	Replacement Replacement
	// Kept is called for the signer and each certificate that is kept or was issued,
	// with the name of its Secret. May be nil.
	Kept func(secret string, expires time.Time)
}

// RotateCertificates makes what is missing of the wanted certificates and renews what is
// due. The bundles that clients have at the moment are in trusted. It returns
// the bundle that they should have, and when to call again at the latest.
func (r *Rotator) RotateCertificates(ctx context.Context, wanted []Leaf, trusted [][]byte) (bundle []byte, due time.Time, err error) {
	signerSecret, err := r.readSecret(ctx, r.SignerSecret)
	if err != nil {
		return nil, time.Time{}, err
	}
	step, err := r.advanceReplacement(ctx, signerSecret)
	if err != nil {
		return nil, time.Time{}, err
	}
	observed, err := r.observeSecrets(ctx, wanted)
	if err != nil {
		return nil, time.Time{}, err
	}
	now := r.Clock.Now()
	observed.Trusted = trusted
	observed.Step = step
	observed.Signer, observed.Previous = signerPairs(signerSecret)
	observed.Next = successorSigner(signerSecret, now)

	plan := PlanRotation(now, observed, wanted)
	if plan.NewSigner {
		fresh, err := r.replaceSigner(ctx, signerSecret, observed.Signer, now)
		if err != nil {
			return nil, time.Time{}, err
		}
		if observed.Signer != nil {
			observed.Previous = observed.Signer
		}
		observed.Signer = fresh
		observed.Next = nil
		observed.Step = Keep
		plan = PlanRotation(now, observed, wanted)
	}
	if string(plan.Bundle) != string(observed.Bundle) {
		if err := r.publishBundle(ctx, plan.Bundle); err != nil {
			return nil, time.Time{}, err
		}
	}
	for _, leaf := range plan.Issue {
		pair, err := r.issueLeaf(ctx, plan.IssueBy, leaf, now)
		if err != nil {
			return nil, time.Time{}, err
		}
		observed.Leaves[leaf.Secret] = pair
		plan.Due = earlierTime(plan.Due, renewTime(pair.Certificate))
	}
	r.reportExpiries(observed)
	return plan.Bundle, plan.Due, nil
}

// reportExpiries says what there is now.
func (r *Rotator) reportExpiries(now ObservedState) {
	if r.Kept == nil {
		return
	}
	if now.Signer != nil {
		r.Kept(r.SignerSecret, now.Signer.Certificate.NotAfter)
	}
	for secret, pair := range now.Leaves {
		if pair != nil {
			r.Kept(secret, pair.Certificate.NotAfter)
		}
	}
}

// observeSecrets reads everything but the signers.
func (r *Rotator) observeSecrets(ctx context.Context, wanted []Leaf) (ObservedState, error) {
	observed := ObservedState{Leaves: map[string]*CertificatePair{}}
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.BundleConfigMap}
	if err := r.Reader.Get(ctx, key, config); client.IgnoreNotFound(err) != nil {
		return ObservedState{}, fmt.Errorf("reading the ConfigMap %q: %w", key, err)
	}
	observed.Bundle = []byte(config.Data[BundleKey])
	for _, leaf := range wanted {
		secret, err := r.readSecret(ctx, leaf.Secret)
		if err != nil {
			return ObservedState{}, err
		}
		if secret != nil {
			observed.Leaves[leaf.Secret] = pairOf(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
		}
	}
	return observed, nil
}

// readSecret returns the secret, or nil if there is none.
func (r *Rotator) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.Namespace, Name: name}
	err := r.Reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secret %q: %w", key, err)
	}
	return secret, nil
}

// replaceSigner stores a new signer and keeps the present one beside it. It
// fails with a conflict if someone else changed the secret meanwhile.
func (r *Rotator) replaceSigner(ctx context.Context, stored *corev1.Secret, present *CertificatePair, now time.Time) (*CertificatePair, error) {
	fresh, err := newAuthority(signerNamePrefix(r.Namespace, r.SignerSecret), cmp.Or(r.SignerLifetime, AuthorityLifetime), now)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{corev1.TLSCertKey: fresh.CertPEM, corev1.TLSPrivateKeyKey: fresh.KeyPEM}
	if present != nil {
		data[previousCertKey], data[previousKeyKey] = present.CertPEM, present.KeyPEM
	}
	if stored == nil {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.SignerSecret, Labels: r.Labels},
			Type:       corev1.SecretTypeTLS,
			Data:       data,
		}
		err = r.Client.Create(ctx, secret, client.FieldOwner(r.Owner))
	} else {
		stored.Data = data
		delete(stored.Annotations, AnnotationReplacement) // it is not the one that was asked for
		err = r.Client.Update(ctx, stored, client.FieldOwner(r.Owner))
	}
	if err != nil {
		return nil, fmt.Errorf("storing a new signer in the secret %q: %w",
			client.ObjectKey{Namespace: r.Namespace, Name: r.SignerSecret}, err)
	}
	return fresh, nil
}

func (r *Rotator) publishBundle(ctx context.Context, bundle []byte) error {
	config := corev1ac.ConfigMap(r.BundleConfigMap, r.Namespace).WithLabels(r.Labels).
		WithData(map[string]string{BundleKey: string(bundle)})
	if err := r.Client.Apply(ctx, config, client.FieldOwner(r.Owner), client.ForceOwnership); err != nil {
		return fmt.Errorf("publishing the bundle in the ConfigMap %q: %w",
			client.ObjectKey{Namespace: r.Namespace, Name: r.BundleConfigMap}, err)
	}
	return nil
}

func (r *Rotator) issueLeaf(ctx context.Context, signer *CertificatePair, leaf Leaf, now time.Time) (*CertificatePair, error) {
	pair, err := NewLeaf(signer, leaf, now)
	if err != nil {
		return nil, err
	}
	secret := corev1ac.Secret(leaf.Secret, r.Namespace).WithLabels(r.Labels).WithType(corev1.SecretTypeTLS).
		WithData(map[string][]byte{corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM})
	if err := r.Client.Apply(ctx, secret, client.FieldOwner(r.Owner), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("storing a certificate in the secret %q: %w",
			client.ObjectKey{Namespace: r.Namespace, Name: leaf.Secret}, err)
	}
	return pair, nil
}

// signerPairs returns the signers of the secret; those that are missing or damaged
// are nil.
func signerPairs(secret *corev1.Secret) (present, previous *CertificatePair) {
	if secret == nil {
		return nil, nil
	}
	return pairOf(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey), pairOf(secret, previousCertKey, previousKeyKey)
}

func pairOf(secret *corev1.Secret, certKey, keyKey string) *CertificatePair {
	pair, err := ParsePair(secret.Data[certKey], secret.Data[keyKey])
	if err != nil {
		return nil // to be replaced, like one that is missing
	}
	return pair
}
