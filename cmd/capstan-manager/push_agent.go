// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

// pushAgentFlags are the flags of the agent for all Push clusters.
type pushAgentFlags struct {
	client   options.ClientOptions
	home     options.HomeOptions
	election options.LeaderElection
	server   options.ServerOptions
	works    workFlags

	hubURL             string
	allowed, forbidden []string
	customClaims       int
	reservedSuffixes   []string
	gates              []string
	metricsPerCluster  bool
	verbosity          int
}

// newPushAgentCommand returns the command that works for all Push clusters of
// its hub.
func newPushAgentCommand() *cobra.Command {
	flags := &pushAgentFlags{
		election: options.DefaultLeaderElection(), server: options.DefaultServer(), works: defaultWorkFlags(),
		customClaims: customClaimsDefault,
	}
	cmd := &cobra.Command{
		Use:   "push-agent",
		Short: "Dials the Push clusters of its hub and is their agent",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runPushAgent(cmd.Context()) },
	}
	flags.addPushAgentFlags(cmd.Flags())
	return cmd
}

func (f *pushAgentFlags) addPushAgentFlags(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.home.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	f.works.addWorkFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
	fs.BoolVar(&f.metricsPerCluster, "metrics-per-cluster", false, "name the clusters in the metrics of connections, which makes as many series as there are clusters")
	fs.StringVar(&f.hubURL, "hub-url", "", "URL of the hub that agents of OCM in clusters have, so that these can become Push; that of --kubeconfig if empty")
	fs.StringSliceVar(&f.allowed, "allowed-networks", nil, "networks, as CIDRs, that may be dialled although they are those of the hub, or loopback or link-local")
	fs.StringSliceVar(&f.forbidden, "forbidden-networks", nil, "networks, as CIDRs, that must not be dialled, besides those of the hub's Services, loopback and link-local")
	fs.IntVar(&f.customClaims, "max-custom-cluster-claims", f.customClaims, "claims of each cluster to tell besides the reserved ones")
	fs.StringSliceVar(&f.reservedSuffixes, "reserved-cluster-claim-suffixes", nil, "ends of the names of further reserved claims")
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.AgentWork)))
}

func (f *pushAgentFlags) runPushAgent(ctx context.Context) error {
	guard, err := f.parseAddressGuard()
	if err != nil {
		return err
	}
	debug.SetGCPercent(agentGCPercent)
	utilruntime.ReallyCrash = false // goroutines of client-go go on after a panic: one cluster must not end the work for all
	logger, err := logging.SetupLogger(f.verbosity)
	if err != nil {
		return err
	}
	works, err := f.workOptions(logger, guard)
	if err != nil {
		return err
	}
	hub, err := f.client.ClientConfig()
	if err != nil {
		return err
	}
	home, err := f.home.HomeConfig(hub)
	if err != nil {
		return err
	}
	if !f.metricsPerCluster {
		if err := countTogether(hub, home); err != nil {
			return err
		}
	}
	works = withTracer(works)
	pushes := push.AgentOptions{
		Hub: hub, HubURL: f.hubURL, Guard: guard, Log: logger, MetricsPerCluster: f.metricsPerCluster,
		ClaimRules: clusterstatus.ClaimRules{CustomMax: f.customClaims, ReservedSuffixes: f.reservedSuffixes},
	}
	lead, err := process.WithLeaderElection(home, f.election, process.OwnNamespace(hubNamespaceDefault), []string{push.LockName},
		func(ctx context.Context) error { return leadPushAgent(ctx, home, pushes, works) })
	if err != nil {
		return err
	}
	return process.ServeWhile(ctx, f.server, home, "push-agent", lead)
}

// countTogether has all requests counted together that do not go to the clusters of
// these configs.
func countTogether(configs ...*rest.Config) error {
	named := map[string]bool{}
	for _, config := range configs {
		server, _, err := rest.DefaultServerUrlFor(config)
		if err != nil {
			return fmt.Errorf("reading the address of the hub: %w", err)
		}
		named[server.Host] = true
	}
	clientmetrics.RequestResult = metrics.HostCounter{Next: clientmetrics.RequestResult, Named: named}
	return nil
}

// workOptions are those of the part for works of all clusters.
func (f *pushAgentFlags) workOptions(logger logr.Logger, guard dial.AddressGuard) (work.PartOptions, error) {
	o, err := f.works.workPartOptions(logger, f.gates)
	o.Workers = push.Workers
	o.WorkersPerCluster = push.WorkersPerCluster
	// Webhooks may be Services of the hub: only what means this host or this link is kept from them.
	o.WebhookGuard = &dial.AddressGuard{Allowed: guard.Allowed}
	return o, err
}

// leadPushAgent works for the clusters until ctx ends. It may be called again then.
func leadPushAgent(ctx context.Context, home *rest.Config, o push.AgentOptions, works work.PartOptions) error {
	networks, err := serviceNetworks(ctx, o.Hub, home)
	if err != nil {
		return fmt.Errorf("the push agent does not dial before it knows what not to: %w", err)
	}
	if len(networks) == 0 {
		o.Log.Info("The hub does not tell the networks of its Services, so only what --forbidden-networks has is kept from members")
	}
	o.Guard.Forbidden = slices.Concat(o.Guard.Forbidden, networks)
	registered := metrics.NewCollectorGroup(controllermetrics.Registry)
	defer registered.UnregisterAll()
	part, err := newWorkPart(works, registered)
	if err != nil {
		return err
	}
	o.Parts = []fleet.Part{part}
	a, err := push.NewAgent(o)
	if err != nil {
		return err
	}
	if err := registered.RegisterAll(a.MetricCollectors()...); err != nil {
		return fmt.Errorf("connections: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return part.Start(ctx) })
	group.Go(func() error { return a.RunSessions(ctx) })
	return group.Wait()
}

// serviceNetworks returns the networks of Services on the hub, and on the cluster
// that the agent runs on if that is another one.
func serviceNetworks(ctx context.Context, hub, home *rest.Config) ([]netip.Prefix, error) {
	networks, err := dial.ServiceNetworks(ctx, hub)
	if err != nil || home == hub {
		return networks, err
	}
	own, err := dial.ServiceNetworks(ctx, home)
	if err != nil {
		return nil, fmt.Errorf("the cluster of the agent: %w", err)
	}
	return append(networks, own...), nil
}

// parseAddressGuard checks the flags about addresses.
func (f *pushAgentFlags) parseAddressGuard() (dial.AddressGuard, error) {
	if f.customClaims < 0 {
		return dial.AddressGuard{}, fmt.Errorf("--max-custom-cluster-claims: %d is less than 0", f.customClaims)
	}
	allowed, err := parseNetworks("--allowed-networks", f.allowed)
	if err != nil {
		return dial.AddressGuard{}, err
	}
	forbidden, err := parseNetworks("--forbidden-networks", f.forbidden)
	if err != nil {
		return dial.AddressGuard{}, err
	}
	if own, err := netip.ParseAddr(os.Getenv("KUBERNETES_SERVICE_HOST")); err == nil {
		forbidden = append(forbidden, netip.PrefixFrom(own, own.BitLen()))
	}
	return dial.AddressGuard{Allowed: allowed, Forbidden: forbidden}, nil
}

func parseNetworks(flag string, texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a network such as 10.96.0.0/12", flag, text)
		}
		list = append(list, network.Masked())
	}
	return list, nil
}
