// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AnnotationReplacement on the secret of a signer is the token of the latest
// replacement that a signer was made for.
const AnnotationReplacement = "fleet.capstan.io/replacement"

// Keys of the signer's secret for the one that takes its place, until it signs.
const (
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
)

// ReplacementStep is how far a signer is being replaced by another one before its time.
// Whoever asks for the next step has seen that the one before has reached
// everybody.
type ReplacementStep int

const (
	// Keep replaces nothing.
	Keep ReplacementStep = iota
	// Trust puts the successor into the bundle; it signs nothing yet.
	Trust
	// Sign makes the successor sign, also everything that others have signed.
	Sign
	// Drop leaves nothing in the bundle but the successor.
	Drop
)

// Replacement asks for another signer.
type Replacement struct {
	// Token tells the replacement from earlier ones: no second signer is made for it.
	Token string
	Step  ReplacementStep
}

// advanceReplacement does what the replacement asks of the signer's secret. It returns the step
// that the certificates are to follow: none, if the signer is not the one that was
// made for the replacement, as somebody has deleted that.
func (r *Rotator) advanceReplacement(ctx context.Context, secret *corev1.Secret) (ReplacementStep, error) {
	present, _ := signerPairs(secret)
	if present == nil || r.Replacement.Step == Keep {
		return Keep, nil
	}
	made := secret.Annotations[AnnotationReplacement] == r.Replacement.Token
	changed := false
	switch r.Replacement.Step {
	case Trust:
		if !made {
			if err := r.addSuccessor(secret); err != nil {
				return Keep, err
			}
			changed = true
		}
	case Sign:
		changed = made && promoteSuccessor(secret)
	case Drop:
		changed = made && removeKeys(secret.Data, previousCertKey, previousKeyKey)
	}
	if changed {
		// Under the lock: nobody else has changed it since it was read.
		if err := r.Client.Update(ctx, secret, client.FieldOwner(r.Owner)); err != nil {
			return Keep, fmt.Errorf("replacing the signer in the secret %q: %w", client.ObjectKeyFromObject(secret), err)
		}
	}
	if !made && r.Replacement.Step != Trust {
		return Keep, nil
	}
	return r.Replacement.Step, nil
}

// addSuccessor adds a new signer to the secret, in memory.
func (r *Rotator) addSuccessor(secret *corev1.Secret) error {
	fresh, err := newAuthority(signerNamePrefix(r.Namespace, r.SignerSecret), cmp.Or(r.SignerLifetime, AuthorityLifetime), r.Clock.Now())
	if err != nil {
		return err
	}
	secret.Data[nextCertKey], secret.Data[nextKeyKey] = fresh.CertPEM, fresh.KeyPEM
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[AnnotationReplacement] = r.Replacement.Token
	return nil
}

// promoteSuccessor makes the successor the signer. It does nothing if it is that already.
func promoteSuccessor(secret *corev1.Secret) bool {
	next := pairOf(secret, nextCertKey, nextKeyKey)
	if next == nil {
		return false
	}
	data := secret.Data
	data[previousCertKey], data[previousKeyKey] = data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = next.CertPEM, next.KeyPEM
	return removeKeys(data, nextCertKey, nextKeyKey)
}

func removeKeys(data map[string][]byte, keys ...string) bool {
	removed := false
	for _, key := range keys {
		if _, ok := data[key]; ok {
			delete(data, key)
			removed = true
		}
	}
	return removed
}

// signerNamePrefix is how the names of the signers in a secret begin.
func signerNamePrefix(namespace, secret string) string { return namespace + "_" + secret }

// IsSignerOfSecret reports whether the certificate is that of a signer, of any time, which a
// Rotator has made for the secret.
func IsSignerOfSecret(cert *x509.Certificate, namespace, secret string) bool {
	return strings.HasPrefix(cert.Subject.CommonName, signerNamePrefix(namespace, secret)+"@")
}

// successorSigner returns the signer that waits until it may sign; nil if there is none.
func successorSigner(secret *corev1.Secret, now time.Time) *CertificatePair {
	if secret == nil {
		return nil
	}
	if next := pairOf(secret, nextCertKey, nextKeyKey); isUsableSigner(next, now) {
		return next
	}
	return nil
}
