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

// issueHubKubeconfigs gives each component, in mode Hosted, a kubeconfig of the hub with a
// token of its own account there: never that of the administrator.
func (i *hubInstallation) issueHubKubeconfigs(ctx context.Context, p *clusterManagerPass) error {
	if !p.hub.IsHosted() {
		return nil
	}
	issuer, err := kubeconfig.NewIssuer(kubeconfig.IssuerOptions{
		To: i.management, Secrets: i.Reader, From: p.target, Clock: i.Clock,
		Server: p.credential.Cluster, Name: "hub", Namespace: p.hub.Namespace(), TokenFile: manifests.HubToken,
	})
	if err != nil {
		return err
	}
	p.hub.Kubeconfigs = map[string]string{}
	unused := manifests.OptionalAccounts()
	for _, component := range manifests.HubComponents(p.hub) {
		account := component.Workload.ServiceAccount
		secret := render.ResourceMeta{Name: manifests.HubSecret(account), Namespace: p.hub.Namespace(), Labels: p.hub.OwnerLabels()}
		if err := issuer.IssueSecret(ctx, secret, account); err != nil {
			return err
		}
		p.hub.Kubeconfigs[account] = issuer.KubeconfigHash()
		unused = slices.DeleteFunc(unused, func(name string) bool { return name == account })
	}
	for _, account := range unused {
		if err := i.deleteOwnSecret(ctx, p, manifests.HubSecret(account)); err != nil {
			return err
		}
	}
	return nil
}

// deleteOwnSecret deletes a secret that we made beside the components, if it is there.
func (i *hubInstallation) deleteOwnSecret(ctx context.Context, p *clusterManagerPass, name string) error {
	secret, err := probe.ReadSecret(ctx, i.Reader, types.NamespacedName{Namespace: p.hub.Namespace(), Name: name})
	if apierrors.IsForbidden(err) {
		return nil // it cannot be of ours
	}
	if err != nil || secret == nil || !isOwnedBy(secret, p.Object.Name) {
		return err
	}
	return i.management.DeleteSecret(ctx, secret)
}
