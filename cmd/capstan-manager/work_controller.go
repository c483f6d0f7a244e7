// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

// workControllerFlags are the flags of the hub's controllers for works.
type workControllerFlags struct {
	managerFlags
	gates []string
	works workRoom
}

// newWorkControllerCommand returns the command that runs the hub's controllers
// for works.
func newWorkControllerCommand() *cobra.Command {
	flags := &workControllerFlags{managerFlags: newManagerFlags(options.DefaultServer())}
	cmd := &cobra.Command{
		Use:   work.ComponentName,
		Short: "Runs the hub's controllers for ManifestWorks: those of ManifestWorkReplicaSets, and the end of those that have finished",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runWorkController(cmd.Context()) },
	}
	flags.addWorkControllerFlags(cmd.Flags())
	return cmd
}

func (f *workControllerFlags) addWorkControllerFlags(fs *pflag.FlagSet) {
	f.addForHub(fs)
	f.works.add(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.HubWork)))
	acceptWithoutEffect(fs, "workload-source-driver", "workload-source-config", "cloudevents-client-id")
}

func (f *workControllerFlags) runWorkController(ctx context.Context) error {
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	gates, err := features.ParseFlags(features.HubWork, f.gates)
	if err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	shared, err := f.works.parse()
	if err != nil {
		return err
	}
	scheme, err := work.NewWorkScheme()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	mgr, err := f.newManager(process.ManagerOptions{
		Component: work.ComponentName, Scheme: scheme, Cache: work.NewWorkCacheOptions(), Watched: work.WatchedWorkKinds(gates),
		Namespace: process.OwnNamespace(hubNamespaceDefault), Lease: work.LockName, SelfConflicts: work.SelfConflicts(gates),
	})
	if err != nil {
		return err
	}
	if err := work.SetupWorkControllers(ctx, mgr, work.SetupOptions{Gates: gates, Metrics: controllermetrics.Registry, SharedWorkBytesMax: shared, WorkWriters: f.works.writers}); err != nil {
		return fmt.Errorf("setting up the controllers for works: %w", err)
	}
	if err := process.RunManager(ctx, mgr); err != nil {
		return fmt.Errorf("running the controllers for works: %w", err)
	}
	return nil
}
