// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/operator-lib/proxy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/operators/klusterlet"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

const (
	// klusterletComponent is the name of the component and of its container.
	klusterletComponent = "klusterlet"
	// klusterletLock is the Lease by which the replicas of the operator agree.
	klusterletLock = "klusterlet-lock"
)

// klusterletFlags are the flags of the klusterlet operator.
type klusterletFlags struct {
	managerFlags
	settings klusterlet.OperatorSettings
}

// newKlusterletCommand returns the command that runs the klusterlet operator on
// a server with these defaults.
func newKlusterletCommand(server options.ServerOptions) *cobra.Command {
	flags := &klusterletFlags{
		managerFlags: newManagerFlags(server),
		settings: klusterlet.OperatorSettings{
			PullSecret:           operatorv1.ImagePullSecret,
			ControlPlaneSelector: "node-role.kubernetes.io/control-plane",
		},
	}
	cmd := &cobra.Command{
		Use:   klusterletComponent,
		Short: "Runs the operator that installs the agents on a member",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runKlusterlet(cmd.Context()) },
	}
	flags.addKlusterletFlags(cmd.Flags())
	return cmd
}

func (f *klusterletFlags) addKlusterletFlags(fs *pflag.FlagSet) {
	f.addForOperator(fs)
	fs.StringVar(&f.settings.PullSecret, "image-pull-secret-name", f.settings.PullSecret,
		"secret in the operator's namespace that agents and add-ons pull with, if it exists; the role allows the default only")
	fs.BoolVar(&f.settings.SyncLabels, "enable-sync-labels", f.settings.SyncLabels,
		"put the labels of a Klusterlet on everything that is installed for it")
	fs.Int32Var(&f.settings.Replicas, "deployment-replicas", f.settings.Replicas,
		"replicas of the agents; 0 is 3 on a cluster with several control plane nodes, else 1")
	fs.StringVar(&f.settings.ControlPlaneSelector, "control-plane-node-label-selector", f.settings.ControlPlaneSelector,
		"selects the nodes of the control plane")
}

func (f *klusterletFlags) runKlusterlet(ctx context.Context) error {
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	f.completeSettings()
	allowed, err := f.reviewPermissions(ctx)
	if err != nil {
		return err
	}
	mgr, err := f.operatorManager(allowed)
	if err != nil {
		return err
	}
	if f.settings.Image, err = process.ImageToInstall(ctx, mgr.GetAPIReader(), f.settings.Namespace, klusterletComponent); err != nil {
		return err
	}
	signal, err := upgrade.SignalFromOLM(mgr.GetConfig())
	if err != nil {
		return err
	}
	if err := klusterlet.SetupKlusterletOperator(mgr, f.settings, allowed, signal); err != nil {
		return err
	}
	return process.RunManager(ctx, mgr)
}

// completeSettings takes what OLM and the Deployment tell by the environment.
func (f *klusterletFlags) completeSettings() {
	f.settings.Namespace = process.OwnNamespace(operatorv1.DefaultOperatorNamespace)
	f.settings.Version = version.SemanticVersion()
	f.settings.Env = proxy.ReadProxyVarsFromEnv()
	f.settings.Metrics = controllermetrics.Registry
}

// reviewPermissions finds out what the role of the operator allows, before there is a
// cache: one whose watch is forbidden never fills.
func (f *klusterletFlags) reviewPermissions(ctx context.Context) (*permissions.PermissionSet, error) {
	config, err := f.client.ClientConfig()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client for the API server: %w", err)
	}
	return permissions.ReviewOperatorRole(ctx, direct)
}

func (f *klusterletFlags) operatorManager(allowed *permissions.PermissionSet) (ctrl.Manager, error) {
	scheme, err := klusterlet.NewKlusterletScheme()
	if err != nil {
		return nil, err
	}
	cached, err := klusterlet.OperatorCacheOptions()
	if err != nil {
		return nil, err
	}
	return f.newManager(process.ManagerOptions{
		Component: klusterletComponent, Scheme: scheme, Cache: cached, Client: allowed.ClientOptions(),
		Watched:   slices.DeleteFunc(klusterlet.OperatorWatchedKinds(), func(kind client.Object) bool { return !allowed.MayWatchKind(kind) }),
		Namespace: f.settings.Namespace, Lease: klusterletLock,
	})
}
