// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install/kubeconfig"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
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

// issueMemberKubeconfigs gives each hosted agent a kubeconfig of its member with a token of
// its own account there: never that of the administrator.
func (i *agentInstallation) issueMemberKubeconfigs(ctx context.Context, p *klusterletPass) error {
	if !manifests.IsHostedMode(p.Object) {
		return nil
	}
	if port := p.memberCredential.Port(); port != 0 {
		p.options.HubPorts = append(p.options.HubPorts, port)
	}
	issuer, err := kubeconfig.NewIssuer(kubeconfig.IssuerOptions{
		To: i.management, Secrets: i.Secrets, From: p.member, Clock: i.Clock,
		Server: p.memberCredential.Cluster, Name: "member",
		Namespace: manifests.MemberNamespace(p.Object), TokenFile: manifests.MemberToken,
	})
	if err != nil {
		return err
	}
	p.options.MemberKubeconfigs = map[string]string{}
	accounts := manifests.MemberSecrets(p.Object)
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		secret := render.ResourceMeta{Name: name, Namespace: manifests.AgentNamespace(p.Object), Labels: manifests.KlusterletLabels(p.Object)}
		if err := issuer.IssueSecret(ctx, secret, accounts[name]); err != nil {
			return err
		}
		p.options.MemberKubeconfigs[name] = issuer.KubeconfigHash()
	}
	return i.removeMemberSecrets(ctx, p, accounts)
}

// removeMemberSecrets deletes those of the mode that the Klusterlet had before.
func (i *agentInstallation) removeMemberSecrets(ctx context.Context, p *klusterletPass, keep map[string]string) error {
	for _, name := range memberSecretNames() {
		if _, ok := keep[name]; ok {
			continue
		}
		key := types.NamespacedName{Namespace: manifests.AgentNamespace(p.Object), Name: name}
		secret, err := probe.ReadSecret(ctx, i.Secrets, key)
		if err != nil {
			return err
		}
		if secret == nil {
			continue
		}
		if err := i.management.DeleteSecret(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}
