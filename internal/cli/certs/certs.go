// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs shows when the certificates of a dedicated hub expire, renews
// them, and replaces authorities and keys.
package certs

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// NewCertsCommand returns the command "certs".
func NewCertsCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Show, renew and rotate the certificates and keys of a dedicated hub",
		Long: "Shows when the certificates of a dedicated hub expire, renews them early, and replaces authorities and keys. " +
			"The cluster of the current context is the host of the hub.\n\n" +
			"There is no need to renew anything by hand: the operator does so long before a certificate expires.",
	}
	cmd.AddCommand(newExpiry(session), newRenew(session), newRotate(session))
	return cmd
}

// planeFlags is the control plane that a command is about.
type planeFlags struct {
	session *hub.Session
	name    string
}

func (p *planeFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.name, "name", install.DedicatedName, "Name of the dedicated hub")
}

// findControlPlane returns the control plane, and a client for its host.
func (p *planeFlags) findControlPlane(ctx context.Context) (client.Client, *fleetv1alpha1.ControlPlane, error) {
	return install.FindDedicated(ctx, p.session, install.DedicatedKey(p.name))
}
