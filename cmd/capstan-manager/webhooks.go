// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/work"
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

// newWorkWebhookCommand returns the command that serves the webhooks of works.
func newWorkWebhookCommand() *cobra.Command {
	flags := newWebhookFlags("work-webhook", features.HubWork)
	sizeMax := workv1.ManifestsSizeMax
	cmd := &cobra.Command{
		Use:   "work-webhook",
		Short: "Serves the hub's webhooks for ManifestWorks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), func(clients webhookClients, gates features.Set) (map[string]http.Handler, error) {
				handlers, err := work.Handlers(work.Options{
					Clients: clients.typed, ManifestsSizeMax: sizeMax, NilExecutor: gates.Enabled(features.NilExecutorValidating),
					CleanUp: gates.Enabled(features.CleanUpCompletedManifestWork), ReplicaSets: gates.Enabled(features.ManifestWorkReplicaSet),
				})
				if err != nil {
					return nil, fmt.Errorf("setting up the webhooks for works: %w", err)
				}
				return handlers, nil
			})
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().IntVar(&sizeMax, "manifest-limit", sizeMax, "bytes that the manifests of one ManifestWork may have together")
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "manifestLimit" { // as OCM's charts spell it
			name = "manifest-limit"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}
