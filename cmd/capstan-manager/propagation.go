// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/hub/propagation"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

// propagationControllerFlags are the flags of the hub's controllers for
// propagation.
type propagationControllerFlags struct {
	managerFlags
	gates   []string
	allowed []string
	works   workRoom
}

// newPropagationControllerCommand returns the command that runs the hub's
// controllers for propagation.
func newPropagationControllerCommand() *cobra.Command {
	flags := &propagationControllerFlags{managerFlags: newManagerFlags(options.DefaultServer())}
	cmd := &cobra.Command{
		Use:   propagation.ComponentName,
		Short: "Runs the hub's controllers that send objects of the hub to clusters, as PropagationPolicies say",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runPropagationController(cmd.Context()) },
	}
	flags.addPropagationFlags(cmd.Flags())
	return cmd
}

func (f *propagationControllerFlags) addPropagationFlags(fs *pflag.FlagSet) {
	f.addForHub(fs)
	fs.StringSliceVar(&f.allowed, "allowed-networks", nil, "networks, as CIDRs, in which webhooks of interpreters may be called although they are loopback or link-local")
	f.works.add(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.HubPlacement)))
}

// propagationGCPercent makes the collector run twice as often as by default: most of
// what the controllers hold is in caches, and stays.
const propagationGCPercent = 50

func (f *propagationControllerFlags) runPropagationController(ctx context.Context) error {
	debug.SetGCPercent(propagationGCPercent)
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	gates, err := features.ParseFlags(features.HubPlacement, f.gates)
	if err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	allowed, err := parseNetworks("--allowed-networks", f.allowed)
	if err != nil {
		return err
	}
	shared, err := f.works.parse()
	if err != nil {
		return err
	}
	scheme, err := propagation.NewPropagationScheme()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	mgr, err := f.newManager(process.ManagerOptions{
		Component: propagation.ComponentName, Scheme: scheme, Cache: propagation.NewPropagationCacheOptions(), Watched: propagation.WatchedPropagationKinds(),
		Namespace: process.OwnNamespace(hubNamespaceDefault), Lease: propagation.LockName, SelfConflicts: propagation.SelfConflicts,
	})
	if err != nil {
		return err
	}
	err = propagation.SetupPropagationControllers(ctx, mgr, propagation.SetupOptions{
		Metrics: controllermetrics.Registry, Gates: gates, Guard: dial.AddressGuard{Allowed: allowed}, SharedWorkBytesMax: shared, WorkWriters: f.works.writers,
	})
	if err != nil {
		return fmt.Errorf("setting up the controllers for propagation: %w", err)
	}
	if err := process.RunManager(ctx, mgr); err != nil {
		return fmt.Errorf("running the controllers for propagation: %w", err)
	}
	return nil
}
