// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/logging"
	"github.com/capstan-io/capstan/internal/metrics"
	"github.com/capstan-io/capstan/internal/options"
)

const (
	// registrationNamespaceDefault is the namespace where it cannot be found out.
	registrationNamespaceDefault = "open-cluster-management-hub"
	// registrationControllerLock is the Lease by which the replicas agree.
	registrationControllerLock = "registration-controller-lock"
	// driverCSR is the one way to register that there is.
	driverCSR = "csr"
)

// registrationFlags are the flags of the registration controller.
type registrationFlags struct {
	client    options.Client
	home      options.Home
	election  options.LeaderElection
	server    options.Server
	verbosity int
	gates     []string
	// approvedUsers and approvedCSRUsers mean the same; the first is the older.
	approvedUsers, approvedCSRUsers []string
	cleanupResources                []string
	drivers                         []string
	// without has the flags of OCM's controller that nothing here needs, with
	// the values that were given for them.
	without map[string]*[]string
}

// newRegistrationControllerCommand returns the command that runs the hub's
// registration controllers.
func newRegistrationControllerCommand() *cobra.Command {
	flags := &registrationFlags{
		election: options.DefaultLeaderElection(), server: options.DefaultServer(),
		drivers: []string{driverCSR}, without: map[string]*[]string{},
	}
	cmd := &cobra.Command{
		Use:   "registration-controller",
		Short: "Runs the hub's controllers that let clusters in and out and watch over them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context()) },
	}
	flags.add(cmd.Flags())
	return cmd
}

func (f *registrationFlags) add(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.home.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.Names(features.HubRegistration)))
	const users = "users whose first certificate requests are approved, and whose clusters are accepted, without an administrator " +
		"(exact names; needs the feature gate ManagedClusterAutoApproval)"
	fs.StringSliceVar(&f.approvedUsers, "cluster-auto-approval-users", nil, users)
	fs.StringSliceVar(&f.approvedCSRUsers, "auto-approved-csr-users", nil, users)
	fs.StringSliceVar(&f.cleanupResources, "gc-resource-list", nil,
		"kinds, as group/version/resource, that are deleted in this order with a cluster; add-ons and works if empty")
	fs.StringSliceVar(&f.drivers, "enabled-registration-drivers", f.drivers, "ways to register; there is csr")
	for _, name := range []string{
		"auto-approved-arn-patterns", "auto-approved-grpc-users", "hub-cluster-arn", "aws-resource-tags", "agent-image",
		"bootstrap-serviceaccount", "import-renderers", "labels", "grpc-ca-file", "grpc-key-file",
	} {
		f.without[name] = &[]string{}
		fs.StringSliceVar(f.without[name], name, nil, "is accepted for compatibility and has no effect")
	}
}

func (f *registrationFlags) run(ctx context.Context) error {
	logger, err := logging.Setup(f.verbosity)
	if err != nil {
		return err
	}
	f.tellOfUnused(logger)
	chosen, err := f.options()
	if err != nil {
		return err
	}
	mgr, err := f.manager(chosen.OwnNamespace)
	if err != nil {
		return err
	}
	if err := registration.Setup(ctx, mgr, chosen); err != nil {
		return fmt.Errorf("setting up the registration controllers: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the registration controllers: %w", err)
	}
	return nil
}

// options checks the flags and returns what was chosen with them.
func (f *registrationFlags) options() (registration.Options, error) {
	gates, err := features.Parse(features.HubRegistration, f.gates)
	if err != nil {
		return registration.Options{}, fmt.Errorf("--feature-gates: %w", err)
	}
	for _, driver := range f.drivers {
		if driver != driverCSR {
			return registration.Options{}, fmt.Errorf("--enabled-registration-drivers: %q is not supported; there is %q", driver, driverCSR)
		}
	}
	return registration.Options{
		Gates:             gates,
		AutoApprovedUsers: slices.Concat(f.approvedUsers, f.approvedCSRUsers),
		CleanupResources:  f.cleanupResources,
		OwnNamespace:      ownNamespace(),
		Metrics:           controllermetrics.Registry,
	}, nil
}

func (f *registrationFlags) manager(namespace string) (ctrl.Manager, error) {
	config, err := f.client.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := registration.NewScheme()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	cached, err := registration.CacheOptions()
	if err != nil {
		return nil, err
	}
	setTLS, err := f.server.TLS()
	if err != nil {
		return nil, err
	}
	home, err := f.home.Config(config)
	if err != nil {
		return nil, err
	}
	electing, err := electionOf(home, f.election, namespace, registrationControllerLock)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, electing(ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cached,
		Metrics:                metrics.AskedOf(metrics.Options(f.server.MetricsPort, setTLS), home),
		HealthProbeBindAddress: f.server.HealthProbeAddress(),
	}))
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	err = errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping),
		metrics.RegisterBuildInfo(controllermetrics.Registry, registration.ComponentName),
	)
	return mgr, err
}

// tellOfUnused logs the flags that were given and have no effect.
func (f *registrationFlags) tellOfUnused(logger logr.Logger) {
	var given []string
	for name, values := range f.without {
		if len(*values) > 0 {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 0 {
		slices.Sort(given)
		logger.Info("some flags have no effect in this release", "flags", given)
	}
}

// ownNamespace returns the namespace of the pod.
func ownNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	content, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if namespace := strings.TrimSpace(string(content)); err == nil && namespace != "" {
		return namespace
	}
	return registrationNamespaceDefault
}
