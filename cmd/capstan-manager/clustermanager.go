// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/operator-framework/operator-lib/conditions"
	"github.com/operator-framework/operator-lib/proxy"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/events"
	"github.com/capstan-io/capstan/internal/install/upgrade"
	"github.com/capstan-io/capstan/internal/logging"
	"github.com/capstan-io/capstan/internal/metrics"
	"github.com/capstan-io/capstan/internal/options"
	"github.com/capstan-io/capstan/internal/version"
	"github.com/capstan-io/capstan/operators/clustermanager"
)

// clusterManagerLock is the Lease by which the replicas of the operator agree
// on which one works.
const clusterManagerLock = "cluster-manager-lock"

// clusterManagerContainer is the name of the operator's container.
const clusterManagerContainer = "registration-operator"

// clusterManagerFlags are the flags of the ClusterManager operator.
type clusterManagerFlags struct {
	client       options.Client
	election     options.LeaderElection
	server       options.Server
	operator     clustermanager.Options
	controlPlane string
	verbosity    int
}

// newClusterManagerCommand returns the command that runs the ClusterManager
// operator on a server with these defaults.
func newClusterManagerCommand(server options.Server) *cobra.Command {
	flags := &clusterManagerFlags{election: options.DefaultLeaderElection(), server: server}
	cmd := &cobra.Command{
		Use:   "cluster-manager",
		Short: "Runs the operator that installs a hub for each ClusterManager",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	flags.client.AddFlags(fs)
	flags.election.AddFlags(fs)
	flags.server.AddFlags(fs)
	flags.server.AddSecureHealthFlag(fs)
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
	fs.IntVarP(&flags.verbosity, "v", "v", 0, "verbosity of the logs; 0 is for operators")
	return cmd
}

// run runs the operator until ctx ends.
func (f *clusterManagerFlags) run(ctx context.Context) error {
	if _, err := logging.Setup(f.verbosity); err != nil {
		return err
	}
	restConfig, err := f.client.Config()
	if err != nil {
		return err
	}
	scheme, err := clustermanager.NewScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client for the API server: %w", err)
	}
	if err := f.complete(ctx, direct); err != nil {
		return err
	}
	mgr, err := f.manager(restConfig, scheme)
	if err != nil {
		return err
	}
	crds, err := config.HubCRDs()
	if err != nil {
		return err
	}
	deps := clustermanager.Deps{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: events.NewRecorder(mgr.GetEventRecorder(clustermanager.FieldOwner)),
		CRDs:   crds, Rules: config.Rules, Options: f.operator,
	}
	if os.Getenv("OPERATOR_CONDITION_NAME") != "" { // set by OLM
		deps.Upgrade, err = conditions.InClusterFactory{Client: direct}.NewCondition(upgrade.ConditionType)
		if err != nil {
			return fmt.Errorf("finding the OperatorCondition: %w", err)
		}
	}
	if err := clustermanager.New(deps).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// complete finds out what the operator has to know about itself.
func (f *clusterManagerFlags) complete(ctx context.Context, c client.Reader) error {
	selector, err := labels.Parse(f.controlPlane)
	if err != nil {
		return fmt.Errorf("--control-plane-node-label-selector %q: %w", f.controlPlane, err)
	}
	f.operator.ControlPlane = selector
	f.operator.Version = version.Get()
	f.operator.ProxyEnv = proxy.ReadProxyVarsFromEnv()
	f.operator.Namespace = os.Getenv("POD_NAMESPACE")
	if f.operator.Namespace == "" {
		f.operator.Namespace = operatorv1.DefaultOperatorNamespace
	}
	f.operator.Image = os.Getenv("AGENT_IMAGE")
	if f.operator.Image != "" {
		return nil
	}
	f.operator.Image, err = imageOfPod(ctx, c, client.ObjectKey{Namespace: f.operator.Namespace, Name: os.Getenv("POD_NAME")})
	return err
}

// imageOfPod returns the image of the operator's container.
func imageOfPod(ctx context.Context, c client.Reader, key client.ObjectKey) (string, error) {
	if key.Name == "" {
		return "", errors.New("set AGENT_IMAGE to the image to install, or POD_NAME to the pod whose image it is")
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, key, pod); err != nil {
		return "", fmt.Errorf("reading the pod %q to find its image (or set AGENT_IMAGE): %w", key, err)
	}
	for i := range pod.Spec.Containers {
		if container := &pod.Spec.Containers[i]; container.Name == clusterManagerContainer || len(pod.Spec.Containers) == 1 {
			return container.Image, nil
		}
	}
	return "", fmt.Errorf("the pod %q has no container %q; set AGENT_IMAGE", key, clusterManagerContainer)
}

func (f *clusterManagerFlags) manager(restConfig *rest.Config, scheme *runtime.Scheme) (ctrl.Manager, error) {
	setTLS, err := f.server.TLS()
	if err != nil {
		return nil, err
	}
	cacheOptions, err := clustermanager.CacheOptions(f.operator)
	if err != nil {
		return nil, err
	}
	electing, err := electionOf(restConfig, f.election, f.operator.Namespace, clusterManagerLock)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restConfig, electing(ctrl.Options{
		Scheme: scheme, Cache: cacheOptions, Metrics: metrics.Options(f.server.MetricsPort, setTLS),
		HealthProbeBindAddress: f.server.HealthProbeAddress(),
	}))
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := metrics.RegisterBuildInfo(crmetrics.Registry, clustermanager.FieldOwner); err != nil {
		return nil, err
	}
	return mgr, addHealth(mgr, f.server)
}
