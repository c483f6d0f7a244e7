// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/operator-framework/operator-lib/proxy"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/operators/clustermanager"
)

// clusterManagerLock is the Lease by which the replicas of the operator agree
// on which one works.
const clusterManagerLock = "cluster-manager-lock"

// clusterManagerContainer is the name of the operator's container.
const clusterManagerContainer = "registration-operator"

// clusterManagerFlags are the flags of the ClusterManager operator.
type clusterManagerFlags struct {
	managerFlags
	operator     clustermanager.OperatorOptions
	controlPlane string
}

// newClusterManagerCommand returns the command that runs the ClusterManager
// operator on a server with these defaults.
func newClusterManagerCommand(server options.ServerOptions) *cobra.Command {
	flags := &clusterManagerFlags{managerFlags: newManagerFlags(server)}
	cmd := &cobra.Command{
		Use:   "cluster-manager",
		Short: "Runs the operator that installs a hub for each ClusterManager",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runClusterManager(cmd.Context()) },
	}
	fs := cmd.Flags()
	flags.addForOperator(fs)
	fs.StringVar(&flags.operator.PullSecret, "image-pull-secret-name", operatorv1.ImagePullSecret,
		"secret in the operator's namespace that is copied to the hub, if it exists, to pull images with")
	fs.BoolVar(&flags.operator.SyncLabels, "enable-sync-labels", false,
		"put the labels of the ClusterManager on everything that is installed")
	fs.BoolVar(&flags.operator.KeepCRDs, "skip-remove-crds", false,
		"leave the hub's CustomResourceDefinitions, and all clusters and works, when the ClusterManager is deleted")
	fs.StringVar(&flags.controlPlane, "control-plane-node-label-selector", "node-role.kubernetes.io/control-plane",
		"nodes that are counted: each component has 3 replicas if there are several, otherwise 1")
	fs.Int32Var(&flags.operator.Replicas, "deployment-replicas", 0,
		"replicas of each component of a hub; 0 derives it from the number of control plane nodes")
	return cmd
}

// runClusterManager runs the operator until ctx ends.
func (f *clusterManagerFlags) runClusterManager(ctx context.Context) error {
	if _, err := logging.SetupLogger(f.verbosity); err != nil {
		return err
	}
	if err := f.completeOptions(); err != nil {
		return err
	}
	mgr, err := f.operatorManager()
	if err != nil {
		return err
	}
	if f.operator.Image, err = process.ImageToInstall(ctx, mgr.GetAPIReader(), f.operator.Namespace, clusterManagerContainer); err != nil {
		return err
	}
	crds, err := config.HubCRDs()
	if err != nil {
		return err
	}
	propagation, err := config.PropagationCRDs()
	if err != nil {
		return err
	}
	signal, err := upgrade.SignalFromOLM(mgr.GetConfig())
	if err != nil {
		return err
	}
	deps := clustermanager.ControllerDeps{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: events.NewRecorder(mgr.GetEventRecorder(clustermanager.FieldOwner)).WithLogger(mgr.GetLogger()),
		CRDs:   crds, Propagation: propagation, Rules: config.Rules, Options: f.operator, Upgrade: signal,
		Metrics: controllermetrics.Registry,
	}
	if err := clustermanager.NewClusterManagerController(deps).SetupWithManager(mgr); err != nil {
		return err
	}
	return process.RunManager(ctx, mgr)
}

// completeOptions takes what the operator has to know from its flags and environment.
func (f *clusterManagerFlags) completeOptions() error {
	selector, err := labels.Parse(f.controlPlane)
	if err != nil {
		return fmt.Errorf("--control-plane-node-label-selector %q: %w", f.controlPlane, err)
	}
	f.operator.ControlPlane = selector
	f.operator.Version = version.SemanticVersion()
	f.operator.ProxyEnv = proxy.ReadProxyVarsFromEnv()
	f.operator.Namespace = process.OwnNamespace(operatorv1.DefaultOperatorNamespace)
	return nil
}

func (f *clusterManagerFlags) operatorManager() (ctrl.Manager, error) {
	scheme, err := clustermanager.NewClusterManagerScheme()
	if err != nil {
		return nil, err
	}
	cached, err := clustermanager.OperatorCacheOptions(f.operator)
	if err != nil {
		return nil, err
	}
	return f.newManager(process.ManagerOptions{
		Component: clustermanager.FieldOwner, Scheme: scheme, Cache: cached, Watched: clustermanager.OperatorWatchedKinds(),
		Namespace: f.operator.Namespace, Lease: clusterManagerLock,
	})
}
