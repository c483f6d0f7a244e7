// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

const (
	// keysOwner is the field owner of keys, which nothing that is applied may remove.
	keysOwner = FieldOwner + "-keys"

	// hashBytes is how much of a SHA-256 tells two configurations apart.
	hashBytes = 8
)

// ensureControlPlaneKeys makes the keys, which only a rotation replaces: without those of
// ServiceAccounts all tokens are invalid, and without those of the encryption
// nobody can read what is stored. It also finds out what pods have to start anew
// for.
func (c *credentialPhases) ensureControlPlaneKeys(ctx context.Context, p *controlPlanePass) error {
	accounts, err := c.serviceAccountKeys(ctx, p)
	if err != nil {
		return err
	}
	p.tokenKey = accounts[manifests.ServiceAccountKey]
	p.plane.Issuer = string(accounts[manifests.ServiceAccountIssuer])
	encryption, err := c.ensureEncryptionConfig(ctx, p)
	if err != nil {
		return err
	}
	policy, err := c.auditPolicy(ctx, p)
	if err != nil {
		return err
	}
	p.plane.Hashes = map[string]string{
		manifests.Etcd: hashParts(p.authorityCertificates(manifests.EtcdAuthority)),
		manifests.APIServer: hashParts(p.authorityCertificates(
			manifests.EtcdAuthority, manifests.ServingAuthority, manifests.ClientAuthority, manifests.FrontProxyAuthority,
		), flattenSecretData(accounts), policy, []byte(strings.Join(encryption, " "))),
		manifests.ControllerManager: hashParts(p.authorityCertificates(manifests.ServingAuthority, manifests.ClientAuthority),
			accounts[manifests.ServiceAccountKey]),
	}
	return nil
}

// serviceAccountKeys returns the keys and the issuer of ServiceAccounts' tokens,
// which are made together with the control plane.
func (c *credentialPhases) serviceAccountKeys(ctx context.Context, p *controlPlanePass) (map[string][]byte, error) {
	secret, err := c.getOrCreateKeySecret(ctx, p, p.plane.ServiceAccountSecret(), func() (map[string][]byte, error) {
		private, public, err := certs.NewSigningKey()
		return map[string][]byte{
			manifests.ServiceAccountKey: private, manifests.ServiceAccountPublicKeys: public,
			manifests.ServiceAccountIssuer: []byte(p.plane.DefaultIssuer()),
		}, err
	})
	if err != nil {
		return nil, err
	}
	err = c.replaceKeys(ctx, p, rotation.ServiceAccountKeys, secret, signingKeys{})
	return secret.Data, err
}

// ensureEncryptionConfig writes the configuration of the encryption at rest next to its keys.
// The API server reads a changed one without a restart. It returns the names of
// the keys, the one that encrypts first.
func (c *credentialPhases) ensureEncryptionConfig(ctx context.Context, p *controlPlanePass) ([]string, error) {
	secret, err := c.getOrCreateKeySecret(ctx, p, p.plane.EncryptionSecret(), func() (map[string][]byte, error) {
		key, err := newEncryptionKey()
		return map[string][]byte{encryptionKeyName(1): key}, err
	})
	if err != nil {
		return nil, err
	}
	if err := c.replaceKeys(ctx, p, rotation.EncryptionKeys, secret, encryptionKeys{}); err != nil {
		return nil, err
	}
	names := encryptionOrder(secret.Data, p.rotationStage(rotation.EncryptionKeys))
	var keys []manifests.EncryptionKey
	for _, name := range names {
		keys = append(keys, manifests.EncryptionKey{Name: name, Secret: secret.Data[name]})
	}
	configuration := manifests.EncryptionConfiguration(p.plane, keys)
	meta := render.ResourceMeta{Name: p.plane.EncryptionSecret(), Namespace: p.plane.Namespace, Labels: p.plane.Labels()}
	return names, p.Apply(ctx, c.target, render.SecretOfType(meta, corev1.SecretTypeOpaque, configuration))
}

// getOrCreateKeySecret returns a Secret, which it makes if there is none.
func (c *credentialPhases) getOrCreateKeySecret(ctx context.Context, p *controlPlanePass, name string, data func() (map[string][]byte, error)) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := c.ensureOwned(ctx, p, secret, name); err != nil {
		return nil, err
	}
	if secret.UID != "" {
		return secret, nil
	}
	made, err := data()
	if err != nil {
		return nil, fmt.Errorf("making the keys of Secret %q: %w", name, err)
	}
	secret.Namespace, secret.Name, secret.Labels = p.plane.Namespace, name, p.plane.Labels()
	secret.Type = corev1.SecretTypeOpaque
	secret.Data = made
	if err := c.Client.Create(ctx, secret, client.FieldOwner(keysOwner)); err != nil {
		return nil, fmt.Errorf("storing the keys of Secret %q: %w", name, err)
	}
	return secret, nil
}

// auditPolicy returns the policy that the user wrote; nil is none.
func (c *credentialPhases) auditPolicy(ctx context.Context, p *controlPlanePass) ([]byte, error) {
	if p.plane.Spec.Audit == nil {
		return nil, nil
	}
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: p.plane.Namespace, Name: p.plane.Spec.Audit.PolicyConfigMap.Name}
	if err := c.Live.Get(ctx, key, config); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the ConfigMap %q: %w", key, err)
	}
	policy := config.Data[manifests.AuditPolicyKey]
	if policy == "" {
		return nil, install.UnreachableError{
			Reason: fleetv1alpha1.ControlPlaneReasonAuditPolicyMissing, After: brokenRetry,
			Message: fmt.Sprintf("ConfigMap %q has no key %s with an audit policy: create it, or remove spec.audit", key, manifests.AuditPolicyKey),
		}
	}
	return []byte(policy), nil
}

// authorityCertificates returns what pods know of authorities: those that they trust, and
// those that sign. Some of it they would read anew by themselves, but then nobody
// could see that they have.
func (p *controlPlanePass) authorityCertificates(names ...string) []byte {
	var all []byte
	for _, name := range names {
		all = append(all, p.bundles[name]...)
		if signer := p.signers[name]; signer != nil {
			all = append(all, signer.CertPEM...)
		}
	}
	return all
}

// hashParts tells texts from others.
func hashParts(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:", len(part))
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:hashBytes])
}

func flattenSecretData(data map[string][]byte) []byte {
	var all []byte
	for _, key := range slices.Sorted(maps.Keys(data)) {
		all = append(append(all, key...), data[key]...)
	}
	return all
}
