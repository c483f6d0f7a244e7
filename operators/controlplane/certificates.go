// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// authorityLifetime is how long an authority is valid: that of a control plane is
// known to members that nobody here can reach.
const authorityLifetime = 10 * 365 * 24 * time.Hour

// credentialPhases has the phases that make certificates and keys.
type credentialPhases struct{ *hostCluster }

// rotateCertificates makes the authorities and all that they sign, and renews what is
// due. Servers read a renewed certificate without a restart.
func (c *credentialPhases) rotateCertificates(ctx context.Context, p *controlPlanePass) error {
	authorities := p.plane.Authorities()
	p.facts.Certificates = nil
	for _, authority := range slices.Sorted(maps.Keys(authorities)) {
		name := p.plane.ResourceName(authority)
		for _, secret := range append(leafSecretNames(authorities[authority]), name) {
			if err := c.ensureOwned(ctx, p, &corev1.Secret{}, secret); err != nil {
				return err
			}
		}
		rotator := certs.Rotator{
			Client: c.Client, Reader: c.Live, Clock: c.Clock, Owner: FieldOwner,
			Namespace: p.plane.Namespace, Labels: p.plane.Labels(),
			SignerSecret: name, BundleConfigMap: name, SignerLifetime: authorityLifetime,
			Replacement: requestedReplacement(p, authority),
		}
		bundle, due, err := rotator.RotateCertificates(ctx, authorities[authority], nil)
		if err != nil {
			return err
		}
		p.bundles[authority] = bundle
		p.DueBy(due)
		if err := c.recordExpiries(ctx, p, authority, authorities[authority]); err != nil {
			return err
		}
	}
	if external := p.plane.Spec.Etcd.External; external != nil {
		if err := c.checkExternalEtcd(ctx, p, external.SecretRef.Name); err != nil {
			return err
		}
	}
	slices.SortFunc(p.facts.Certificates, func(a, b fleetv1alpha1.ControlPlaneCertificate) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func leafSecretNames(leaves []certs.Leaf) []string {
	var names []string
	for _, leaf := range leaves {
		names = append(names, leaf.Secret)
	}
	return names
}

// recordExpiries reads the certificates of an authority for the status, and those that
// later phases need.
func (c *credentialPhases) recordExpiries(ctx context.Context, p *controlPlanePass, authority string, leaves []certs.Leaf) error {
	signer := p.plane.ResourceName(authority)
	for _, name := range append([]string{signer}, leafSecretNames(leaves)...) {
		secret, pair, err := c.readKeyPair(ctx, p, name)
		if err != nil {
			return err
		}
		p.facts.Certificates = append(p.facts.Certificates, fleetv1alpha1.ControlPlaneCertificate{
			Name: name, Authority: name == signer, Expires: metav1.NewTime(pair.Certificate.NotAfter),
		})
		switch name {
		case signer:
			p.signers[authority], p.replaced[authority] = pair, secret.Annotations[certs.AnnotationReplacement]
		case p.plane.AdminSecret():
			p.admin = pair
		}
	}
	return nil
}

func (c *credentialPhases) readKeyPair(ctx context.Context, p *controlPlanePass, name string) (*corev1.Secret, *certs.CertificatePair, error) {
	secret := &corev1.Secret{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: p.plane.Namespace, Name: name}, secret); err != nil {
		return nil, nil, fmt.Errorf("reading the Secret %q: %w", name, err)
	}
	pair, err := certs.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, nil, fmt.Errorf("reading the Secret %q: %w", name, err)
	}
	return secret, pair, nil
}

// checkExternalEtcd looks whether the API server can use the credential that the user
// gives it. The Secret is the user's, and so is its renewal.
func (c *credentialPhases) checkExternalEtcd(ctx context.Context, p *controlPlanePass, name string) error {
	secret := &corev1.Secret{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: p.plane.Namespace, Name: name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Secret %q: %w", name, err)
	}
	problem := ""
	pair, parseErr := certs.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	switch {
	case err != nil:
		problem = "does not exist"
	case parseErr != nil:
		problem = fmt.Sprintf("has no usable %s and %s: %v", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, parseErr)
	case len(certs.ParseBundle(secret.Data[manifests.ExternalEtcdCA])) == 0:
		problem = "has no certificate in " + manifests.ExternalEtcdCA
	case !c.Clock.Now().Before(pair.Certificate.NotAfter):
		problem = "has a certificate that expired at " + pair.Certificate.NotAfter.UTC().Format(time.RFC3339)
	}
	if pair != nil {
		p.facts.Certificates = append(p.facts.Certificates, fleetv1alpha1.ControlPlaneCertificate{
			Name: name, Expires: metav1.NewTime(pair.Certificate.NotAfter),
		})
	}
	if problem == "" {
		p.bundles[manifests.EtcdAuthority] = secret.Data[manifests.ExternalEtcdCA]
		return nil
	}
	p.facts.EtcdReason = fleetv1alpha1.ControlPlaneReasonExternalEtcdInvalid
	p.facts.EtcdProblem = fmt.Sprintf("Secret %q %s; write a valid one with %s, %s and %s",
		name, problem, manifests.ExternalEtcdCA, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	return install.UnreachableError{Reason: p.facts.EtcdReason, Message: p.facts.EtcdProblem, After: brokenRetry}
}
