// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/hub/placement/debug"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

// placementControllerFlags are the flags of the hub's controller for Placements.
type placementControllerFlags struct {
	managerFlags
	gates []string
}

// newPlacementControllerCommand returns the command that runs the hub's
// controller for Placements.
func newPlacementControllerCommand() *cobra.Command {
	flags := &placementControllerFlags{managerFlags: newManagerFlags(options.DefaultServer())}
	cmd := &cobra.Command{
		Use:   placement.ComponentName,
		Short: "Runs the hub's controller that chooses members for Placements",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runPlacementController(cmd.Context()) },
	}
	flags.addPlacementFlags(cmd.Flags())
	return cmd
}

func (f *placementControllerFlags) addPlacementFlags(fs *pflag.FlagSet) {
	f.addForHub(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.HubPlacement)))
}

func (f *placementControllerFlags) runPlacementController(ctx context.Context) error {
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	if _, err := features.ParseFlags(features.HubPlacement, f.gates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	scheme, err := placement.NewPlacementScheme()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	mgr, err := f.newManager(process.ManagerOptions{
		Component: placement.ComponentName, Scheme: scheme, Cache: placement.NewPlacementCacheOptions(), Watched: placement.WatchedPlacementKinds(),
		Namespace: process.OwnNamespace(hubNamespaceDefault), Lease: placement.LockName, SelfConflicts: placement.SelfConflicts,
	})
	if err != nil {
		return err
	}
	if err := placement.SetupPlacementController(ctx, mgr, placement.SetupOptions{Metrics: controllermetrics.Registry}); err != nil {
		return fmt.Errorf("setting up the controller for Placements: %w", err)
	}
	if err := process.RunManager(ctx, mgr); err != nil {
		return fmt.Errorf("running the controller for Placements: %w", err)
	}
	return nil
}

// placementDebugHealthPort is another one than that of the controller, as both
// are in one pod.
const placementDebugHealthPort = 8001

// placementDebugFlags are the flags of the debug endpoint for Placements.
type placementDebugFlags struct {
	managerFlags
	listen, certDir string
}

// newPlacementDebugCommand returns the command that serves the debug endpoint
// for Placements.
func newPlacementDebugCommand() *cobra.Command {
	server := options.DefaultServer()
	server.HealthProbePort = placementDebugHealthPort
	server.MetricsPort = 0
	flags := &placementDebugFlags{managerFlags: newManagerFlags(server), listen: debug.ListenDefault, certDir: debug.CertDirDefault}
	cmd := &cobra.Command{
		Use:   debug.ComponentName,
		Short: "Serves which members a Placement would choose now, and why",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runPlacementDebug(cmd.Context()) },
	}
	flags.addPlacementDebugFlags(cmd.Flags())
	return cmd
}

func (f *placementDebugFlags) addPlacementDebugFlags(fs *pflag.FlagSet) {
	f.addForHub(fs)
	fs.StringVar(&f.listen, "listen", f.listen, "address and port of the endpoint (HTTPS)")
	fs.StringVar(&f.certDir, "cert-dir", f.certDir, "directory of tls.crt and tls.key; they are read again when they change")
}

func (f *placementDebugFlags) runPlacementDebug(ctx context.Context) error {
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	scheme, err := placement.NewPlacementScheme()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	setTLS, err := f.server.TLSConfigurer()
	if err != nil {
		return err
	}
	// Every replica serves, so there is no Lease.
	mgr, err := f.newManager(process.ManagerOptions{
		Component: debug.ComponentName, Scheme: scheme, Cache: placement.NewPlacementCacheOptions(), Watched: placement.WatchedPlacementKinds(),
	})
	if err != nil {
		return err
	}
	if err := debug.SetupDebugServer(ctx, mgr, debug.ServerOptions{Listen: f.listen, CertDir: f.certDir, SetTLS: setTLS}); err != nil {
		return fmt.Errorf("setting up the debug endpoint for Placements: %w", err)
	}
	if err := process.RunManager(ctx, mgr); err != nil {
		return fmt.Errorf("serving the debug endpoint for Placements: %w", err)
	}
	return nil
}
