// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/remote"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// memberSecretNames are the secrets that agents may have for their member.
func memberSecretNames() []string {
	return []string{
		operatorv1.ExternalManagedKubeConfigRegistrationSecret,
		operatorv1.ExternalManagedKubeConfigWorkSecret,
		operatorv1.ExternalManagedKubeConfigAgentSecret,
	}
}

// kubeconfigs gives each hosted agent a kubeconfig of its member with a token of
// its own account there: never that of the administrator.
func (c *Controller) kubeconfigs(ctx context.Context, p *pass) error {
	if !manifests.Hosted(p.klusterlet) {
		return nil
	}
	if port := p.memberCredential.Port(); port != 0 {
		p.options.HubPorts = append(p.options.HubPorts, port)
	}
	kubeconfig, err := remote.TokenKubeconfig(p.memberCredential.Cluster, "member", manifests.MemberNamespace(p.klusterlet), manifests.MemberToken)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(kubeconfig)
	p.options.MemberKubeconfigs = map[string]string{}
	accounts := manifests.MemberSecrets(p.klusterlet)
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		key := types.NamespacedName{Namespace: manifests.AgentNamespace(p.klusterlet), Name: name}
		token, err := c.token(ctx, p, key, accounts[name])
		if err != nil {
			return err
		}
		meta := render.Meta{Name: key.Name, Namespace: key.Namespace, Labels: manifests.Marks(p.klusterlet)}
		data := map[string][]byte{operatorv1.KubeConfigKey: kubeconfig, operatorv1.TokenKey: token}
		if _, err := c.home.secretApplier.Apply(ctx, render.Secret(meta, corev1.SecretTypeOpaque, data)); err != nil {
			return err
		}
		p.options.MemberKubeconfigs[name] = hex.EncodeToString(sum[:definitionHashBytes])
	}
	return c.removeMemberSecrets(ctx, p, accounts)
}

// token returns a token of the account on the member: the one that the secret
// has as long as it is good, else a new one.
func (c *Controller) token(ctx context.Context, p *pass, key types.NamespacedName, account string) ([]byte, error) {
	name := types.NamespacedName{Namespace: manifests.MemberNamespace(p.klusterlet), Name: account}
	secret, err := probe.Secret(ctx, c.Secrets, key)
	if err != nil {
		return nil, err
	}
	var present []byte
	if secret != nil {
		present = secret.Data[operatorv1.TokenKey]
	}
	token, err := remote.Token(ctx, p.member.client, name, present, c.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("the managed cluster gives no token: %w", err)
	}
	return token, nil
}

// removeMemberSecrets deletes those of the mode that the Klusterlet had before.
func (c *Controller) removeMemberSecrets(ctx context.Context, p *pass, keep map[string]string) error {
	for _, name := range memberSecretNames() {
		if _, ok := keep[name]; ok {
			continue
		}
		key := types.NamespacedName{Namespace: manifests.AgentNamespace(p.klusterlet), Name: name}
		secret, err := probe.Secret(ctx, c.Secrets, key)
		if err != nil {
			return err
		}
		if secret == nil {
			continue
		}
		stale := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := c.Client.Delete(ctx, stale); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting secret %q: %w", key, err)
		}
	}
	return nil
}
