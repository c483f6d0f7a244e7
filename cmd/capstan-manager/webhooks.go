// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/propagation"
	"github.com/capstan-io/capstan/internal/webhook/serving"
	"github.com/capstan-io/capstan/internal/webhook/work"
)

// newRegistrationWebhookCommand returns the command that serves the webhooks
// of clusters and bindings.
func newRegistrationWebhookCommand() *cobra.Command {
	flags := newWebhookFlags("registration-webhook", features.HubRegistration)
	maxUnaccepted := operatorv1.MaxUnacceptedClustersDefault
	cmd := &cobra.Command{
		Use:   "registration-webhook",
		Short: "Serves the hub's webhooks for ManagedClusters, ManagedClusterSetBindings and certificate requests",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if maxUnaccepted < 0 {
				return fmt.Errorf("--max-unaccepted-clusters: %d is no number of clusters; 0 is no limit", maxUnaccepted)
			}
			return flags.runWebhookServer(cmd.Context(), func(clients webhookClients, gates features.GateSet) (map[string]http.Handler, error) {
				handlers, err := cluster.WebhookHandlers(cmd.Context(), cluster.WebhookOptions{
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
	flags.addWebhookFlags(cmd.Flags())
	cmd.Flags().IntVar(&maxUnaccepted, "max-unaccepted-clusters", maxUnaccepted,
		"ManagedClusters that nobody has accepted yet which one user or bootstrap token may have, and certificate requests that wait; 0 is no limit")
	return cmd
}

// newWorkWebhookCommand returns the command that serves the webhooks of works.
func newWorkWebhookCommand() *cobra.Command {
	flags := newWebhookFlags("work-webhook", features.HubWork)
	sizeMax := workv1.ManifestsSizeMax
	authorize := false
	cmd := &cobra.Command{
		Use:   "work-webhook",
		Short: "Serves the hub's webhooks for ManifestWorks, policies and bindings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.runWebhookServer(cmd.Context(), func(clients webhookClients, gates features.GateSet) (map[string]http.Handler, error) {
				handlers, err := work.WebhookHandlers(work.WebhookOptions{
					Clients: clients.typed, ManifestsSizeMax: sizeMax, NilExecutor: gates.Enabled(features.NilExecutorValidating),
					CleanUp: gates.Enabled(features.CleanUpCompletedManifestWork), ReplicaSets: gates.Enabled(features.ManifestWorkReplicaSet),
				})
				if err != nil {
					return nil, fmt.Errorf("setting up the webhooks for works: %w", err)
				}
				// Nobody calls them without the gate Propagation.
				policies, err := propagation.WebhookHandlers(propagation.WebhookOptions{
					Clients: clients.typed, Authorize: authorize, Customizations: propagation.NewCustomizationReader(clients.typed.Discovery().RESTClient()),
				})
				if err != nil {
					return nil, fmt.Errorf("setting up the webhooks for policies and bindings: %w", err)
				}
				maps.Copy(handlers, policies)
				return handlers, nil
			})
		},
	}
	flags.addWebhookFlags(cmd.Flags())
	cmd.Flags().IntVar(&sizeMax, "manifest-limit", sizeMax, "bytes that the manifests of one ManifestWork may have together")
	cmd.Flags().BoolVar(&authorize, "authorize-propagation", authorize, "let policies send to clusters only what their authors may read on the hub")
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "manifestLimit" { // as OCM's charts spell it
			name = "manifest-limit"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// webhookFlags are the flags that all webhook servers have.
type webhookFlags struct {
	component string
	gatesOf   features.Component

	client    options.ClientOptions
	home      options.HomeOptions
	server    options.ServerOptions
	gates     []string
	port      int
	certDir   string
	verbosity int
}

// webhookClients ask the hub's API server.
type webhookClients struct {
	typed    kubernetes.Interface
	metadata metadata.Interface
}

func newWebhookFlags(component string, gatesOf features.Component) *webhookFlags {
	return &webhookFlags{
		component: component, gatesOf: gatesOf,
		server: options.DefaultServer(), port: serving.DefaultPort, certDir: serving.DefaultCertDir,
	}
}

func (f *webhookFlags) addWebhookFlags(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.home.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil, fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(f.gatesOf)))
	fs.IntVar(&f.port, "port", f.port, "port of the webhooks (HTTPS)")
	fs.StringVar(&f.certDir, "cert-dir", f.certDir, "directory of tls.crt and tls.key; they are read again when they change")
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
}

// runWebhookServer serves what the function makes until ctx ends.
func (f *webhookFlags) runWebhookServer(
	ctx context.Context, handlers func(webhookClients, features.GateSet) (map[string]http.Handler, error),
) error {
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	gates, err := features.ParseFlags(f.gatesOf, f.gates)
	if err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	config, err := f.client.ClientConfig()
	if err != nil {
		return err
	}
	home, err := f.home.HomeConfig(config)
	if err != nil {
		return err
	}
	var clients webhookClients
	if clients.typed, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client for the API server: %w", err)
	}
	if clients.metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("making a metadata client for the API server: %w", err)
	}
	served, err := handlers(clients, gates)
	if err != nil {
		return err
	}
	return serving.RunWebhookServer(ctx, serving.ServerOptions{
		Component: f.component, Handlers: served, Config: home,
		Port: f.port, CertDir: f.certDir, Server: f.server, Clock: clock.RealClock{},
	})
}
