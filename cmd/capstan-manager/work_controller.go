// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/logging"
	"github.com/capstan-io/capstan/internal/metrics"
	"github.com/capstan-io/capstan/internal/options"
)

// workControllerFlags are the flags of the hub's controllers for works.
type workControllerFlags struct {
	client    options.Client
	home      options.Home
	election  options.LeaderElection
	server    options.Server
	gates     []string
	verbosity int
}

// newWorkControllerCommand returns the command that runs the hub's controllers
// for works.
func newWorkControllerCommand() *cobra.Command {
	flags := &workControllerFlags{election: options.DefaultLeaderElection(), server: options.DefaultServer()}
	cmd := &cobra.Command{
		Use:   work.ComponentName,
		Short: "Runs the hub's controllers for ManifestWorks, such as the end of those that have finished",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context()) },
	}
	flags.add(cmd.Flags())
	return cmd
}

func (f *workControllerFlags) add(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.home.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.Names(features.HubWork)))
	acceptWithoutEffect(fs, "workload-source-driver", "workload-source-config", "cloudevents-client-id")
}

func (f *workControllerFlags) run(ctx context.Context) error {
	if _, err := logging.Setup(f.verbosity); err != nil {
		return err
	}
	gates, err := features.Parse(features.HubWork, f.gates)
	if err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	mgr, err := f.manager()
	if err != nil {
		return err
	}
	if err := work.Setup(mgr, work.Options{Gates: gates}); err != nil {
		return fmt.Errorf("setting up the controllers for works: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the controllers for works: %w", err)
	}
	return nil
}

func (f *workControllerFlags) manager() (ctrl.Manager, error) {
	config, err := f.client.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := work.NewScheme()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	setTLS, err := f.server.TLS()
	if err != nil {
		return nil, err
	}
	home, err := f.home.Config(config)
	if err != nil {
		return nil, err
	}
	electing, err := electionOf(home, f.election, ownNamespace(), work.LockName)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, electing(ctrl.Options{
		Scheme:                 scheme,
		Cache:                  work.CacheOptions(),
		Metrics:                metrics.AskedOf(metrics.Options(f.server.MetricsPort, setTLS), home),
		HealthProbeBindAddress: f.server.HealthProbeAddress(),
	}))
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	err = errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping),
		metrics.RegisterBuildInfo(controllermetrics.Registry, work.ComponentName),
	)
	return mgr, err
}
