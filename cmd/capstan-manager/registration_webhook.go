// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
)

// newRegistrationWebhookCommand returns the command that serves the webhooks
// of clusters and bindings.
func newRegistrationWebhookCommand() *cobra.Command {
	flags := newWebhookFlags("registration-webhook", features.HubRegistration)
	cmd := &cobra.Command{
		Use:   "registration-webhook",
		Short: "Serves the hub's webhooks for ManagedClusters and ManagedClusterSetBindings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), func(clients kubernetes.Interface, gates features.Set) (map[string]http.Handler, error) {
				handlers, err := cluster.Handlers(cluster.Options{
					Clients: clients, Clock: clock.RealClock{}, DefaultSet: gates.Enabled(features.DefaultClusterSet),
				})
				if err != nil {
					return nil, fmt.Errorf("setting up the webhooks for clusters: %w", err)
				}
				return handlers, nil
			})
		},
	}
	flags.add(cmd.Flags())
	return cmd
}
