// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/controlplane/datadir"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
	"github.com/capstan-io/capstan/operators/controlplane"
)

// controlPlaneLock is the Lease by which the replicas of the operator agree.
const controlPlaneLock = "control-plane-lock"

// newControlPlaneCommand returns the command that runs the operator of dedicated
// hubs on a server with these defaults.
func newControlPlaneCommand(server options.ServerOptions) *cobra.Command {
	flags := newManagerFlags(server)
	cmd := &cobra.Command{
		Use:   fleetv1alpha1.ControlPlaneOperator,
		Short: "Runs the operator that installs the API servers of dedicated hubs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runControlPlane(cmd.Context(), &flags) },
	}
	flags.addManagerFlags(cmd.Flags())
	return cmd
}

func runControlPlane(ctx context.Context, flags *managerFlags) error {
	if _, err := logging.SetupLogger(flags.verbosity); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, fleetv1alpha1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("making the scheme: %w", err)
		}
	}
	namespace := process.OwnNamespace(operatorv1.DefaultOperatorNamespace)
	mgr, err := flags.newManager(process.ManagerOptions{
		Component: controlplane.FieldOwner, Scheme: scheme, Cache: controlplane.OperatorCacheOptions(),
		Watched: controlplane.OperatorWatchedKinds(), Namespace: namespace, Lease: controlPlaneLock,
	})
	if err != nil {
		return err
	}
	if err := controlplane.SetupControlPlaneOperator(mgr, namespace, controllermetrics.Registry); err != nil {
		return err
	}
	return process.RunManager(ctx, mgr)
}

// newEtcdDataCommand returns the command that pods of "capstan restore" run.
func newEtcdDataCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "etcd-data", Short: "Puts restored data into the volume of a member of etcd, as a step of a pod"}
	dir := cmd.PersistentFlags().String("dir", "", "Directory of the volume")
	receive := &cobra.Command{Use: "receive", Short: "Reads a snapshot from standard input", Args: cobra.NoArgs}
	size := receive.Flags().Int64("size", 0, "Size of the snapshot")
	sum := receive.Flags().String("sha256", "", "SHA-256 of the snapshot")
	receive.RunE = func(*cobra.Command, []string) error { return datadir.ReceiveSnapshot(os.Stdin, *dir, *size, *sum) }
	put := &cobra.Command{Use: "put", Short: "Puts restored data where etcd looks for them", Args: cobra.NoArgs}
	again := put.Flags().Bool("again", false, "The restore is repeated: keep what was there when it began first")
	put.RunE = func(*cobra.Command, []string) error { return datadir.PutRestoredData(*dir, *again) }
	cmd.AddCommand(receive, put)
	return cmd
}
