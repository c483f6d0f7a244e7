// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	olmv2 "github.com/operator-framework/api/pkg/operators/v2"
	olm "github.com/operator-framework/operator-lib/conditions"
	"github.com/operator-framework/operator-lib/proxy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/install/upgrade"
	"github.com/capstan-io/capstan/internal/logging"
	"github.com/capstan-io/capstan/internal/metrics"
	"github.com/capstan-io/capstan/internal/options"
	"github.com/capstan-io/capstan/internal/version"
	"github.com/capstan-io/capstan/operators/klusterlet"
)

const (
	klusterletComponent = "klusterlet"
	// klusterletLock is the Lease by which the replicas of the operator agree.
	klusterletLock = "klusterlet-lock"
)

// klusterletFlags are the flags of the klusterlet operator.
type klusterletFlags struct {
	client   options.Client
	election options.LeaderElection
	server   options.Server
	settings klusterlet.Settings
	logLevel int
}

// newKlusterletCommand returns the command that runs the klusterlet operator on
// a server with these defaults.
func newKlusterletCommand(server options.Server) *cobra.Command {
	flags := &klusterletFlags{
		election: options.DefaultLeaderElection(),
		server:   server,
		settings: klusterlet.Settings{
			Namespace:            operatorv1.DefaultOperatorNamespace,
			PullSecret:           operatorv1.ImagePullSecret,
			ControlPlaneSelector: "node-role.kubernetes.io/control-plane",
		},
	}
	cmd := &cobra.Command{
		Use:   klusterletComponent,
		Short: "Runs the operator that installs the agents on a member",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context()) },
	}
	flags.add(cmd.Flags())
	return cmd
}

func (f *klusterletFlags) add(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	f.server.AddSecureHealthFlag(fs)
	fs.StringVar(&f.settings.PullSecret, "image-pull-secret-name", f.settings.PullSecret,
		"secret in the operator's namespace that agents and add-ons pull with, if it exists; the role allows the default only")
	fs.BoolVar(&f.settings.SyncLabels, "enable-sync-labels", f.settings.SyncLabels,
		"put the labels of a Klusterlet on everything that is installed for it")
	fs.Int32Var(&f.settings.Replicas, "deployment-replicas", f.settings.Replicas,
		"replicas of the agents; 0 is 3 on a cluster with several control plane nodes, else 1")
	fs.StringVar(&f.settings.ControlPlaneSelector, "control-plane-node-label-selector", f.settings.ControlPlaneSelector,
		"selects the nodes of the control plane")
	fs.IntVarP(&f.logLevel, "v", "v", f.logLevel, "verbosity of the log")
}

func (f *klusterletFlags) run(ctx context.Context) error {
	if _, err := logging.Setup(f.logLevel); err != nil {
		return err
	}
	config, err := f.client.Config()
	if err != nil {
		return err
	}
	setTLS, err := f.server.TLS()
	if err != nil {
		return err
	}
	scheme, err := klusterletScheme()
	if err != nil {
		return err
	}
	caching, err := klusterlet.CacheOptions()
	if err != nil {
		return err
	}
	f.complete()
	electing, err := electionOf(config, f.election, f.settings.Namespace, klusterletLock)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, electing(ctrl.Options{
		Scheme:                 scheme,
		Cache:                  caching,
		Metrics:                metrics.Options(f.server.MetricsPort, setTLS),
		HealthProbeBindAddress: f.server.HealthProbeAddress(),
	}))
	if err != nil {
		return fmt.Errorf("making the manager of the klusterlet operator: %w", err)
	}
	if err := f.setup(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// complete takes what OLM and the Deployment tell by the environment.
func (f *klusterletFlags) complete() {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		f.settings.Namespace = namespace
	}
	f.settings.Version = version.Get()
	f.settings.Env = proxy.ReadProxyVarsFromEnv()
	f.settings.Image = os.Getenv("AGENT_IMAGE")
}

func (f *klusterletFlags) setup(ctx context.Context, mgr ctrl.Manager) error {
	if f.settings.Image == "" {
		image, err := ownImage(ctx, mgr.GetAPIReader(), types.NamespacedName{Namespace: f.settings.Namespace, Name: os.Getenv("POD_NAME")})
		if err != nil {
			return err
		}
		f.settings.Image = image
	}
	if err := metrics.RegisterBuildInfo(ctrlmetrics.Registry, klusterletComponent); err != nil {
		return err
	}
	if err := addHealth(mgr, f.server); err != nil {
		return err
	}
	var signal upgrade.Signal
	if os.Getenv("OPERATOR_CONDITION_NAME") != "" { // set by OLM
		// Past the cache: OLM gives the operator its one OperatorCondition only.
		direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
		if err != nil {
			return fmt.Errorf("making the client for OLM: %w", err)
		}
		if signal, err = (olm.InClusterFactory{Client: direct}).NewCondition(upgrade.ConditionType); err != nil {
			return fmt.Errorf("finding the OperatorCondition: %w", err)
		}
	}
	return klusterlet.Setup(mgr, f.settings, signal)
}

func klusterletScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme, olmv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	return scheme, nil
}

// ownImage returns the image that this program runs from, which is the agents'
// image, too.
func ownImage(ctx context.Context, reader client.Reader, key types.NamespacedName) (string, error) {
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, key, pod); err != nil {
		return "", fmt.Errorf("finding the own image in pod %q (set AGENT_IMAGE, or POD_NAME and POD_NAMESPACE): %w", key, err)
	}
	if len(pod.Spec.Containers) == 0 {
		return "", fmt.Errorf("pod %q has no container; set AGENT_IMAGE", key)
	}
	return pod.Spec.Containers[0].Image, nil
}
