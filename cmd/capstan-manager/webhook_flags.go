// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/logging"
	"github.com/capstan-io/capstan/internal/options"
	"github.com/capstan-io/capstan/internal/webhook/serving"
)

// webhookFlags are the flags that all webhook servers have.
type webhookFlags struct {
	component string
	gatesOf   features.Component

	client    options.Client
	home      options.Home
	server    options.Server
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

func (f *webhookFlags) add(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.home.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil, fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.Names(f.gatesOf)))
	fs.IntVar(&f.port, "port", f.port, "port of the webhooks (HTTPS)")
	fs.StringVar(&f.certDir, "cert-dir", f.certDir, "directory of tls.crt and tls.key; they are read again when they change")
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
}

// run serves what the function makes until ctx ends.
func (f *webhookFlags) run(
	ctx context.Context, handlers func(webhookClients, features.Set) (map[string]http.Handler, error),
) error {
	if _, err := logging.Setup(f.verbosity); err != nil {
		return err
	}
	gates, err := features.Parse(f.gatesOf, f.gates)
	if err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	config, err := f.client.Config()
	if err != nil {
		return err
	}
	home, err := f.home.Config(config)
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
	return serving.Run(ctx, serving.Options{
		Component: f.component, Handlers: served, Config: home,
		Port: f.port, CertDir: f.certDir, Server: f.server, Clock: clock.RealClock{},
	})
}
