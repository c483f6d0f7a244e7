// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// prepareAgentSecrets copies the pull secret to where agents and add-ons run, takes the
// agents' credentials along when their namespace changed, and looks what is in
// them. The secret to join with is its user's: it is never changed.
func (i *agentInstallation) prepareAgentSecrets(ctx context.Context, p *klusterletPass) error {
	if err := i.copyPullSecret(ctx, p); err != nil {
		return err
	}
	if err := i.inspectHubCredentials(ctx, p); err != nil {
		return err
	}
	return i.createAgentSecrets(ctx, manifests.AgentNamespace(p.Object))
}

// createAgentSecrets makes the secrets that the agent writes, as it may not create
// any: Kubernetes puts a token of whichever account a secret of type
// service-account-token names into it, and the type cannot be changed later.
func (i *agentInstallation) createAgentSecrets(ctx context.Context, namespace string) error {
	for _, name := range []string{operatorv1.HubKubeConfigSecret, operatorv1.HubKubeConfigPendingSecret} {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		secret, err := probe.ReadSecret(ctx, i.Secrets, key)
		if err != nil {
			return err
		}
		if secret != nil && secret.Type == corev1.SecretTypeServiceAccountToken {
			if err := i.management.DeleteSecret(ctx, secret); err != nil {
				return err
			}
			secret = nil
		}
		if secret != nil {
			continue
		}
		empty := &corev1.Secret{Type: corev1.SecretTypeOpaque}
		empty.Name = name
		empty.Namespace = namespace
		if err := i.Client.Create(ctx, empty); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating secret %q for the agent: %w", key, err)
		}
	}
	return nil
}

// inspectHubCredentials looks what is in the agents' secrets for the hub.
func (i *agentInstallation) inspectHubCredentials(ctx context.Context, p *klusterletPass) error {
	namespace := manifests.AgentNamespace(p.Object)
	alias := hubprobe.HubAliasOf(p.Object)
	for _, secret := range []struct {
		name string
		into *probe.Credential
	}{
		{operatorv1.BootstrapHubKubeConfigSecret, &p.bootstrap},
		{operatorv1.HubKubeConfigSecret, &p.hub},
	} {
		found, err := i.ownSecret(ctx, p, types.NamespacedName{Namespace: namespace, Name: secret.name})
		if err != nil {
			return err
		}
		if secret.name == operatorv1.HubKubeConfigSecret {
			found = hubprobe.NonEmptySecret(found)
		}
		*secret.into = probe.InspectSecret(found, namespace+"/"+secret.name, alias)
	}
	p.hub = hubprobe.RequireClusterName(p.hub, p.Object)
	for _, credential := range []probe.Credential{p.bootstrap, p.hub} {
		if port := credential.Port(); port != 0 {
			p.options.HubPorts = append(p.options.HubPorts, port)
		}
	}
	p.options.ClusterName = hubprobe.ClusterName(p.Object, p.hub)
	return nil
}

// ownSecret returns a secret of the agents; nil means that there is none. Where it
// is missing it is taken over from a namespace that the agents had before, so
// that the member keeps its name and its place on the hub.
func (i *agentInstallation) ownSecret(ctx context.Context, p *klusterletPass, key types.NamespacedName) (*corev1.Secret, error) {
	secret, err := probe.ReadSecret(ctx, i.Secrets, key)
	// That of the hub is made empty; the one to join with is never changed.
	present := secret != nil && (key.Name == operatorv1.BootstrapHubKubeConfigSecret || len(secret.Data) > 0)
	if err != nil || present {
		return secret, err
	}
	old, err := listFormerNamespaces(ctx, i.management, p.Object)
	if err != nil {
		return nil, err
	}
	for _, namespace := range old {
		source, err := probe.ReadSecret(ctx, i.Secrets, types.NamespacedName{Namespace: namespace.Name, Name: key.Name})
		if err != nil {
			return nil, err
		}
		if source == nil || len(source.Data) == 0 {
			continue
		}
		copied := &corev1.Secret{Type: source.Type, Data: source.Data}
		copied.Name = key.Name
		copied.Namespace = key.Namespace
		if secret != nil { // empty
			copied = secret.DeepCopy()
			copied.Data = source.Data
			err = i.Client.Update(ctx, copied)
		} else {
			err = client.IgnoreAlreadyExists(i.Client.Create(ctx, copied))
		}
		if err != nil {
			return nil, fmt.Errorf("copying secret %q from namespace %q: %w", key, namespace.Name, err)
		}
		return copied, nil
	}
	return secret, nil
}

// copyPullSecret copies the secret, if there is one, into the namespaces of
// the agents and of add-ons.
func (i *agentInstallation) copyPullSecret(ctx context.Context, p *klusterletPass) error {
	if i.Settings.PullSecret == "" {
		return nil
	}
	source, err := probe.ReadSecret(ctx, i.Secrets, types.NamespacedName{Namespace: i.Settings.Namespace, Name: i.Settings.PullSecret})
	if err != nil || source == nil {
		return err
	}
	p.options.PullSecret = source.Name
	if err := i.copySecret(ctx, i.management, source, manifests.AgentNamespace(p.Object)); err != nil {
		return err
	}
	addons := &corev1.NamespaceList{}
	if err := p.member.Client.List(ctx, addons, client.MatchingLabels{operatorv1.LabelAddOnNamespace: "true"}); err != nil {
		return fmt.Errorf("listing the namespaces of add-ons: %w", err)
	}
	for n := range addons.Items {
		if !addons.Items[n].DeletionTimestamp.IsZero() {
			continue
		}
		if err := i.copySecret(ctx, p.member, source, addons.Items[n].Name); err != nil {
			return err
		}
	}
	return nil
}

// copySecret applies a copy of the secret if the one that is there differs. It
// is no related resource: which namespaces have one changes with the add-ons.
func (i *agentInstallation) copySecret(ctx context.Context, to *install.Target, source *corev1.Secret, namespace string) error {
	if to == i.management && namespace == source.Namespace {
		return nil
	}
	meta := render.ResourceMeta{Name: source.Name, Namespace: namespace}
	_, err := to.Secrets.Apply(ctx, render.SecretCopy(meta, source))
	return err
}
