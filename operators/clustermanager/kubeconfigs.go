// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/remote"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// kubeconfigHashBytes is how much of a SHA-256 tells two kubeconfigs apart.
const kubeconfigHashBytes = 16

// kubeconfigs gives each component, in mode Hosted, a kubeconfig of the hub with a
// token of its own account there: never that of the administrator.
func (c *Controller) kubeconfigs(ctx context.Context, p *pass) error {
	if !p.hub.Hosted() {
		return nil
	}
	kubeconfig, err := remote.TokenKubeconfig(p.credential.Cluster, "hub", p.hub.Namespace(), manifests.HubToken)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(kubeconfig)
	p.hub.Kubeconfigs = map[string]string{}
	unused := manifests.OptionalAccounts()
	for _, component := range manifests.Components(p.hub) {
		account := component.Workload.ServiceAccount
		if err := c.kubeconfig(ctx, p, account, kubeconfig); err != nil {
			return err
		}
		p.hub.Kubeconfigs[account] = hex.EncodeToString(sum[:kubeconfigHashBytes])
		unused = slices.DeleteFunc(unused, func(name string) bool { return name == account })
	}
	for _, account := range unused {
		if err := c.dropSecret(ctx, p, manifests.HubSecret(account)); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig writes the secret of one account: with the token that it has as long
// as that is good, else with a new one.
func (c *Controller) kubeconfig(ctx context.Context, p *pass, account string, kubeconfig []byte) error {
	meta := render.Meta{Name: manifests.HubSecret(account), Namespace: p.hub.Namespace(), Labels: p.hub.Owner()}
	secret, err := probe.Secret(ctx, c.reader, types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name})
	if err != nil {
		return err
	}
	var present []byte
	if secret != nil {
		present = secret.Data[operatorv1.TokenKey]
	}
	name := types.NamespacedName{Namespace: p.hub.Namespace(), Name: account}
	token, err := remote.Token(ctx, p.site.client, name, present, c.clock.Now())
	if err != nil {
		return fmt.Errorf("the hub gives no token: %w", err)
	}
	data := map[string][]byte{operatorv1.KubeConfigKey: kubeconfig, operatorv1.TokenKey: token}
	// Read past the cache, which has none of these secrets.
	_, err = render.NewApplier(c.client, c.reader, FieldOwner).Apply(ctx, render.Secret(meta, corev1.SecretTypeOpaque, data))
	return err
}

// dropSecret deletes a secret that we made beside the components, if it is there.
func (c *Controller) dropSecret(ctx context.Context, p *pass, name string) error {
	key := types.NamespacedName{Namespace: p.hub.Namespace(), Name: name}
	secret, err := probe.Secret(ctx, c.reader, key)
	if err != nil || secret == nil || !ours(secret, p.cm.Name) {
		return err
	}
	stale := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.client.Delete(ctx, stale); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting secret %q: %w", key, err)
	}
	return nil
}
