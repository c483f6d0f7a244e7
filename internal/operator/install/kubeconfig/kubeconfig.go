// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig provides programs that run on one cluster and work on
// another with a kubeconfig for the latter, each with a token of its own
// account there.
//
// Tokens are renewed by issuing again, as often as their cluster is looked at;
// nothing here runs by itself.
package kubeconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/remote"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// hashBytes is how much of a SHA-256 tells two kubeconfigs apart.
const hashBytes = 16

// IssuerOptions say which cluster kubeconfigs are for, and where they go.
type IssuerOptions struct {
	// To is the cluster that the secrets are on; Secrets reads them.
	To      *install.Target
	Secrets client.Reader
	// From is the cluster of the accounts, Server what its administrator's
	// kubeconfig says of it.
	From   *install.Target
	Server *clientcmdapi.Cluster
	// Name that the kubeconfig calls it by.
	Name string
	// Namespace of the accounts.
	Namespace string
	// TokenFile is where programs find their token.
	TokenFile string
	Clock     clock.PassiveClock
}

// Issuer writes secrets with a kubeconfig and a token.
type Issuer struct {
	options    IssuerOptions
	kubeconfig []byte
}

// NewIssuer returns an Issuer.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	kubeconfig, err := remote.TokenKubeconfig(o.Server, o.Name, o.Namespace, o.TokenFile)
	if err != nil {
		return nil, err
	}
	return &Issuer{options: o, kubeconfig: kubeconfig}, nil
}

// KubeconfigHash tells the kubeconfig, without the token, from another one: programs that
// have read an earlier one have to be restarted.
func (i *Issuer) KubeconfigHash() string {
	sum := sha256.Sum256(i.kubeconfig)
	return hex.EncodeToString(sum[:hashBytes])
}

// IssueSecret writes the secret of one account: with the token that it has as long as
// that is good, else with a new one.
func (i *Issuer) IssueSecret(ctx context.Context, meta render.ResourceMeta, account string) error {
	secret, err := probe.ReadSecret(ctx, i.options.Secrets, types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name})
	if err != nil {
		return err
	}
	var present []byte
	if secret != nil {
		present = secret.Data[operatorv1.TokenKey]
	}
	name := types.NamespacedName{Namespace: i.options.Namespace, Name: account}
	token, err := remote.EnsureToken(ctx, i.options.From.Client, name, present, i.options.Clock.Now())
	if err != nil {
		return fmt.Errorf("getting a token of the %s: %w", i.options.Name, err)
	}
	data := map[string][]byte{operatorv1.KubeConfigKey: i.kubeconfig, operatorv1.TokenKey: token}
	_, err = i.options.To.Secrets.Apply(ctx, render.SecretOfType(meta, corev1.SecretTypeOpaque, data))
	return err
}
