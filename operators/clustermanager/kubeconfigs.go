// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/operator/install/kubeconfig"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// kubeconfigs gives each component, in mode Hosted, a kubeconfig of the hub with a
// token of its own account there: never that of the administrator.
func (i *installation) kubeconfigs(ctx context.Context, p *pass) error {
	if !p.hub.Hosted() {
		return nil
	}
	issuer, err := kubeconfig.NewIssuer(kubeconfig.Options{
		To: i.management, Secrets: i.Reader, From: p.target, Clock: i.Clock,
		Server: p.credential.Cluster, Name: "hub", Namespace: p.hub.Namespace(), TokenFile: manifests.HubToken,
	})
	if err != nil {
		return err
	}
	p.hub.Kubeconfigs = map[string]string{}
	unused := manifests.OptionalAccounts()
	for _, component := range manifests.Components(p.hub) {
		account := component.Workload.ServiceAccount
		secret := render.Meta{Name: manifests.HubSecret(account), Namespace: p.hub.Namespace(), Labels: p.hub.Owner()}
		if err := issuer.Issue(ctx, secret, account); err != nil {
			return err
		}
		p.hub.Kubeconfigs[account] = issuer.Hash()
		unused = slices.DeleteFunc(unused, func(name string) bool { return name == account })
	}
	for _, account := range unused {
		if err := i.dropSecret(ctx, p, manifests.HubSecret(account)); err != nil {
			return err
		}
	}
	return nil
}

// dropSecret deletes a secret that we made beside the components, if it is there.
func (i *installation) dropSecret(ctx context.Context, p *pass, name string) error {
	secret, err := probe.Secret(ctx, i.Reader, types.NamespacedName{Namespace: p.hub.Namespace(), Name: name})
	if apierrors.IsForbidden(err) {
		return nil // it cannot be of ours
	}
	if err != nil || secret == nil || !ours(secret, p.Object.Name) {
		return err
	}
	return i.management.DeleteSecret(ctx, secret)
}
