// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

const (
	// hubNamespaceDefault is the namespace of a component of a hub outside of a pod.
	hubNamespaceDefault = "open-cluster-management-hub"
	// registrationControllerLock is the Lease by which the replicas agree.
	registrationControllerLock = "registration-controller-lock"
	// driverCSR is the one way to register that there is.
	driverCSR = "csr"
)

// registrationFlags are the flags of the registration controller.
type registrationFlags struct {
	managerFlags
	gates []string
	// approvedUsers and approvedCSRUsers mean the same; the first is the older.
	approvedUsers, approvedCSRUsers []string
	cleanupResources                []string
	drivers                         []string
	maxAutomatic                    int
	countPods, customizations       bool
	agentLabels                     string
	// without has the flags of OCM's controller that nothing here needs, with
	// the values that were given for them.
	without map[string]*[]string
}

// newRegistrationControllerCommand returns the command that runs the hub's
// registration controllers.
func newRegistrationControllerCommand() *cobra.Command {
	flags := &registrationFlags{
		managerFlags: newManagerFlags(options.DefaultServer()),
		drivers:      []string{driverCSR}, without: map[string]*[]string{},
		maxAutomatic: operatorv1.MaxAutomaticClustersDefault,
	}
	cmd := &cobra.Command{
		Use:   "registration-controller",
		Short: "Runs the hub's controllers that let clusters in and out and watch over them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runRegistrationController(cmd.Context()) },
	}
	flags.addRegistrationFlags(cmd.Flags())
	return cmd
}

func (f *registrationFlags) addRegistrationFlags(fs *pflag.FlagSet) {
	f.addForHub(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.HubRegistration)))
	const users = "users whose first certificate requests are approved, and whose clusters are accepted, without an administrator " +
		"(exact names; needs the feature gate ManagedClusterAutoApproval)"
	fs.StringSliceVar(&f.approvedUsers, "cluster-auto-approval-users", nil, users)
	fs.StringSliceVar(&f.approvedCSRUsers, "auto-approved-csr-users", nil, users)
	fs.IntVar(&f.maxAutomatic, "max-automatic-clusters", f.maxAutomatic,
		"clusters that the hub accepts without an administrator because of one bootstrap token; 0 is no limit")
	fs.StringSliceVar(&f.cleanupResources, "gc-resource-list", nil,
		"kinds, as group/version/resource, that are deleted in this order with a cluster; add-ons and works if empty")
	fs.StringSliceVar(&f.drivers, "enabled-registration-drivers", f.drivers, "ways to register; there is csr")
	fs.BoolVar(&f.countPods, "count-pods", false,
		"have agents count what pods request, for replicas that policies of Karmada place by what clusters have left")
	fs.BoolVar(&f.customizations, "customizations", false,
		"let agents read the ResourceInterpreterCustomizations of the hub, which say what the objects mean that policies of Karmada send")
	fs.StringVar(&f.agentLabels, "agent-labels", "",
		"keys of labels that agents may change on their ManagedClusters, separated by commas, such as env,example.com/*; "+
			"a ClusterConnection may say otherwise; none if empty")
	for _, name := range []string{
		"auto-approved-arn-patterns", "auto-approved-grpc-users", "hub-cluster-arn", "aws-resource-tags", "agent-image",
		"bootstrap-serviceaccount", "import-renderers", "labels", "grpc-ca-file", "grpc-key-file",
	} {
		f.without[name] = &[]string{}
		fs.StringSliceVar(f.without[name], name, nil, "is accepted for compatibility and has no effect")
	}
}

func (f *registrationFlags) runRegistrationController(ctx context.Context) error {
	logger, err := logging.SetupLogger(f.verbosity)
	if err != nil {
		return err
	}
	f.tellOfUnused(logger)
	chosen, err := f.registrationOptions()
	if err != nil {
		return err
	}
	mgr, err := f.newRegistrationManager(chosen.OwnNamespace)
	if err != nil {
		return err
	}
	if err := registration.SetupRegistrationControllers(ctx, mgr, chosen); err != nil {
		return fmt.Errorf("setting up the registration controllers: %w", err)
	}
	if err := process.RunManager(ctx, mgr); err != nil {
		return fmt.Errorf("running the registration controllers: %w", err)
	}
	return nil
}

// registrationOptions checks the flags and returns what was chosen with them.
func (f *registrationFlags) registrationOptions() (registration.SetupOptions, error) {
	gates, err := features.ParseFlags(features.HubRegistration, f.gates)
	if err != nil {
		return registration.SetupOptions{}, fmt.Errorf("--feature-gates: %w", err)
	}
	for _, driver := range f.drivers {
		if driver != driverCSR {
			return registration.SetupOptions{}, fmt.Errorf("--enabled-registration-drivers: %q is not supported; there is %q", driver, driverCSR)
		}
	}
	if f.maxAutomatic < 0 {
		return registration.SetupOptions{}, fmt.Errorf("--max-automatic-clusters: %d is no number of clusters; 0 is no limit", f.maxAutomatic)
	}
	labels, err := agentlabels.ParseAllowedKeys(f.agentLabels)
	if err != nil {
		return registration.SetupOptions{}, fmt.Errorf("--agent-labels: %w", err)
	}
	return registration.SetupOptions{
		Gates:             gates,
		AgentLabels:       labels,
		Mirror:            gates.Enabled(features.AggregatedAPI),
		CountPods:         f.countPods,
		Customizations:    f.customizations,
		AutoApprovedUsers: slices.Concat(f.approvedUsers, f.approvedCSRUsers),
		MaxAutomatic:      f.maxAutomatic,
		CleanupResources:  f.cleanupResources,
		OwnNamespace:      process.OwnNamespace(hubNamespaceDefault),
		Metrics:           controllermetrics.Registry,
	}, nil
}

// newRegistrationManager makes the manager that they run in.
func (f *registrationFlags) newRegistrationManager(namespace string) (ctrl.Manager, error) {
	scheme, err := registration.NewRegistrationScheme()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	cached, err := registration.NewRegistrationCacheOptions()
	if err != nil {
		return nil, err
	}
	return f.newManager(process.ManagerOptions{
		Component: registration.ComponentName, Scheme: scheme, Cache: cached, Watched: registration.WatchedRegistrationKinds(),
		Namespace: namespace, Lease: registrationControllerLock, SelfConflicts: registration.SelfConflicts,
	})
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
		logger.Info("Some flags have no effect in this release", "flags", given)
	}
}
