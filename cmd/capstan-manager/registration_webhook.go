// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
)

// newRegistrationWebhookCommand returns the command that serves the webhooks
// of clusters and bindings.
func newRegistrationWebhookCommand() *cobra.Command {
	flags := newWebhookFlags("registration-webhook", features.HubRegistration)
	maxUnaccepted := operatorv1.MaxUnacceptedClustersDefault
	cmd := &cobra.Command{
		Use:   "registration-webhook",
		Short: "Serves the hub's webhooks for ManagedClusters and ManagedClusterSetBindings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if maxUnaccepted < 0 {
				return fmt.Errorf("--max-unaccepted-clusters: %d is no number of clusters; 0 is no limit", maxUnaccepted)
			}
			return flags.run(cmd.Context(), func(clients webhookClients, gates features.Set) (map[string]http.Handler, error) {
				handlers, err := cluster.Handlers(cluster.Options{
					Clients: clients.typed, Metadata: clients.metadata, Clock: clock.RealClock{},
					DefaultSet: gates.Enabled(features.DefaultClusterSet), MaxUnaccepted: maxUnaccepted,
				})
				if err != nil {
					return nil, fmt.Errorf("setting up the webhooks for clusters: %w", err)
				}
				return handlers, nil
			})
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().IntVar(&maxUnaccepted, "max-unaccepted-clusters", maxUnaccepted,
		"ManagedClusters that nobody has accepted yet which one user or bootstrap token may have; 0 is no limit")
	return cmd
}
