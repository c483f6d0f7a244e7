// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

const (
	// agentNamespaceDefault is the namespace of an agent outside of a pod.
	agentNamespaceDefault = "open-cluster-management-agent"
	// customClaimsDefault is how many claims the hub is told besides the reserved ones.
	customClaimsDefault = 20
	// reservedSuffixesMax is how many suffixes of reserved claims there may be.
	reservedSuffixesMax = 10
	// certificateSecondsMin is the shortest lifetime that the API takes.
	certificateSecondsMin = 600
	// agentGCPercent makes the collector run twice as often as by default: an
	// agent allocates little, and there is one for each member.
	agentGCPercent = 50
	// driverToken is the other way of add-ons to authenticate.
	driverToken = "token"
)

// registrationAgentFlags are the flags of what an agent does for registration.
type registrationAgentFlags struct {
	client   options.ClientOptions
	election options.LeaderElection
	server   options.ServerOptions

	hubQPS            float32
	hubBurst          int
	namespace         string
	spokeKubeconfig   string
	clusterName       string
	agentID           string
	bootstrap         string
	bootstraps        []string
	externalURLs      []string
	externalBundles   []string
	expirationSeconds int32
	annotations       map[string]string
	labels            map[string]string
	customClaims      int
	reservedSuffixes  []string
	driver            string
	addOnDriver       string
	gates             []string
	verbosity         int
}

// newRegistrationAgentCommand returns the command that runs the registration
// part of an agent alone.
func newRegistrationAgentCommand() *cobra.Command {
	flags := defaultRegistrationAgentFlags()
	cmd := &cobra.Command{
		Use:   "registration-agent",
		Short: "Joins a member to its hub and keeps it there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.runRegistrationAgent(cmd.Context(), "registration-agent", moreParts{})
		},
	}
	flags.addRegistrationAgentFlags(cmd.Flags())
	return cmd
}

func defaultRegistrationAgentFlags() *registrationAgentFlags {
	return &registrationAgentFlags{
		election: options.DefaultLeaderElection(), server: options.DefaultServer(),
		customClaims: customClaimsDefault, driver: driverCSR, addOnDriver: driverCSR,
	}
}

func (f *registrationAgentFlags) addRegistrationAgentFlags(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
	fs.StringVar(&f.namespace, "agent-namespace", "", "namespace of the agent's own secrets; that of the pod if empty")
	fs.StringVar(&f.namespace, "component-namespace", "", "another name of --agent-namespace")
	fs.StringVar(&f.spokeKubeconfig, "spoke-kubeconfig", "", "kubeconfig file of the member; that of --kubeconfig if empty")
	fs.StringVar(&f.clusterName, "spoke-cluster-name", "", "name to join under; that of the stored credential, or a new UUID, if empty")
	fs.StringVar(&f.agentID, "agent-id", "", "tells this agent from others of the same member; the UID of the Klusterlet")
	fs.Float32Var(&f.hubQPS, "hub-kube-api-qps", 0, "requests per second to the hub; as many as --kube-api-qps if 0")
	fs.IntVar(&f.hubBurst, "hub-kube-api-burst", 0, "requests above the limit of --hub-kube-api-qps for a moment")
	fs.StringVar(&f.bootstrap, "bootstrap-kubeconfig", "",
		"kubeconfig file to join with, if the agent's namespace has no secret bootstrap-hub-kubeconfig")
	fs.StringSliceVar(&f.externalURLs, "spoke-external-server-urls", nil, "addresses at which the hub can reach the member's API server")
	fs.StringSliceVar(&f.externalBundles, "spoke-external-server-ca-bundles", nil,
		"CA bundles of these addresses in the same order, base64; the one the agent itself uses where empty")
	fs.Int32Var(&f.expirationSeconds, "client-cert-expiration-seconds", 0, "lifetime of client certificates; the signer's default if 0")
	fs.StringToStringVar(&f.annotations, "cluster-annotations", nil, "annotations to create the ManagedCluster with")
	fs.StringToStringVar(&f.labels, "cluster-labels", nil, "labels to keep on the ManagedCluster")
	fs.IntVar(&f.customClaims, "max-custom-cluster-claims", f.customClaims, "claims to tell the hub besides the reserved ones")
	fs.StringSliceVar(&f.reservedSuffixes, "reserved-cluster-claim-suffixes", nil, "ends of the names of further reserved claims")
	fs.StringVar(&f.driver, "registration-auth", f.driver, "way to authenticate with the hub; there is csr")
	fs.StringVar(&f.addOnDriver, "addon-kubeclient-registration-auth", f.addOnDriver, "way of add-ons to authenticate with the hub; csr or token")
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.AgentRegistration)))
	fs.StringArrayVar(&f.bootstraps, "bootstrap-kubeconfigs", nil, "kubeconfig files of several hubs; not supported")
	acceptWithoutEffect(fs, "hub-connection-timeout-seconds", "addon-token-expiration-seconds", "hub-cluster-arn", "managed-cluster-arn",
		"managed-cluster-role-suffix", "grpc-bootstrap-config", "grpc-config", "terminate-on-files", "hub-kubeconfig-dir",
		"hub-kubeconfig-secret")
}

// acceptWithoutEffect adds flags of OCM's agents that nothing here needs.
func acceptWithoutEffect(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if fs.Lookup(name) == nil {
			fs.StringArray(name, nil, "is accepted for compatibility and has no effect")
		}
	}
}

// moreParts are what an agent does besides registration. The zero value is
// nothing.
type moreParts struct {
	// lease is the one by which all processes that could do this agree. The agent
	// begins when it has this one, too: an agent that only did this and is being
	// replaced has then ended.
	lease string
	// parts checks the flags and returns what adds them.
	parts func(logger logr.Logger) (addParts, error)
}

// addParts makes parts anew, adds them to the options and their metrics to the group, and
// returns what has to run for them.
type addParts func(options *agent.PullAgentOptions, group *metrics.CollectorGroup) (run func(context.Context) error, err error)

// noParts adds none.
func noParts(*agent.PullAgentOptions, *metrics.CollectorGroup) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

func (f *registrationAgentFlags) runRegistrationAgent(ctx context.Context, component string, more moreParts) error {
	debug.SetGCPercent(agentGCPercent)
	logger, err := logging.SetupLogger(f.verbosity)
	if err != nil {
		return err
	}
	chosen, err := f.registrationAgentOptions(logger)
	if err != nil {
		return err
	}
	leases := []string{agent.LockName}
	add := addParts(noParts)
	if more.parts != nil {
		leases = append(leases, more.lease)
		if add, err = more.parts(logger); err != nil {
			return err
		}
	}
	lead, err := process.WithLeaderElection(chosen.Home, f.election, chosen.Namespace, leases, func(ctx context.Context) error {
		return leadAgent(ctx, chosen, add)
	})
	if err != nil {
		return err
	}
	logger.Info("The agent starts", "namespace", chosen.Namespace, "cluster", chosen.ClusterName)
	return process.ServeWhile(ctx, f.server, chosen.Home, component, lead)
}

// leadAgent is the agent until ctx ends. It may be called again then.
func leadAgent(ctx context.Context, o agent.PullAgentOptions, add addParts) error {
	registered := metrics.NewCollectorGroup(controllermetrics.Registry)
	defer registered.UnregisterAll()
	beside, err := add(&o, registered)
	if err != nil {
		return err
	}
	a, err := agent.NewPullAgent(o)
	if err != nil {
		return err
	}
	if err := registered.RegisterAll(a.MetricCollectors()...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.RunAgent(ctx) })
	group.Go(func() error { return beside(ctx) })
	return group.Wait()
}

// registrationAgentOptions checks the flags and returns what was chosen with them.
func (f *registrationAgentFlags) registrationAgentOptions(logger logr.Logger) (agent.PullAgentOptions, error) {
	if err := f.checkUnsupported(); err != nil {
		return agent.PullAgentOptions{}, err
	}
	gates, err := parseGatesOf(features.AgentRegistration, f.gates)
	if err != nil {
		return agent.PullAgentOptions{}, err
	}
	home, err := f.client.ClientConfig()
	if err != nil {
		return agent.PullAgentOptions{}, err
	}
	member := home
	if f.spokeKubeconfig != "" {
		spoke := options.ClientOptions{Kubeconfig: f.spokeKubeconfig, QPS: f.client.QPS, Burst: f.client.Burst}
		if member, err = spoke.ClientConfig(); err != nil {
			return agent.PullAgentOptions{}, err
		}
	}
	configs, err := f.clientConfigs(member)
	if err != nil {
		return agent.PullAgentOptions{}, err
	}
	hubQPS, hubBurst := f.hubLimit()
	return agent.PullAgentOptions{
		HubQPS: hubQPS, HubBurst: hubBurst,
		Home: home, Member: member, Namespace: agentNamespace(f.namespace), AgentID: f.agentID,
		ClusterName: f.clusterName, BootstrapFile: f.bootstrap,
		Labels: f.labels, Annotations: f.annotations, ClientConfigs: configs, ExpirationSeconds: f.expirationSeconds,
		Claims:     gates.Enabled(features.ClusterClaim),
		Properties: gates.Enabled(features.ClusterProperty),
		ClaimRules: clusterstatus.ClaimRules{CustomMax: f.customClaims, ReservedSuffixes: f.reservedSuffixes},
		Log:        logger,
	}, nil
}

// hubLimit returns the limit of requests to the hub: that of its own or, as each
// server has one, the same as that of the member.
func (f *registrationAgentFlags) hubLimit() (qps float32, burst int) {
	if f.hubQPS > 0 {
		return f.hubQPS, f.hubBurst
	}
	return f.client.QPS, f.client.Burst
}

func (f *registrationAgentFlags) checkUnsupported() error {
	switch {
	case f.driver != "" && f.driver != driverCSR:
		return fmt.Errorf("--registration-auth: %q is not supported; there is %q", f.driver, driverCSR)
	case f.addOnDriver != "" && f.addOnDriver != driverCSR && f.addOnDriver != driverToken:
		return fmt.Errorf("--addon-kubeclient-registration-auth: %q is not supported; there are %q and %q", f.addOnDriver, driverCSR, driverToken)
	case len(f.bootstraps) > 0:
		return fmt.Errorf("--bootstrap-kubeconfigs: several hubs are not supported; use --bootstrap-kubeconfig")
	case f.expirationSeconds != 0 && f.expirationSeconds < certificateSecondsMin:
		return fmt.Errorf("--client-cert-expiration-seconds: %d is less than %d, the least that Kubernetes signs for", f.expirationSeconds, certificateSecondsMin)
	case f.customClaims < 0:
		return fmt.Errorf("--max-custom-cluster-claims: %d is less than 0", f.customClaims)
	case len(f.reservedSuffixes) > reservedSuffixesMax:
		return fmt.Errorf("--reserved-cluster-claim-suffixes: %d suffixes are more than %d", len(f.reservedSuffixes), reservedSuffixesMax)
	}
	for key := range f.annotations {
		if !strings.HasPrefix(key, clusterv1.AnnotationAgentPrefix) {
			return fmt.Errorf("--cluster-annotations: the key %q does not begin with %s", key, clusterv1.AnnotationAgentPrefix)
		}
	}
	return nil
}

// parseGatesOf returns the gates of one component from flags that may have
// those of the other part of the same agent, too.
func parseGatesOf(component features.Component, flags []string) (features.GateSet, error) {
	other := features.GateNames(features.AgentWork)
	if component == features.AgentWork {
		other = features.GateNames(features.AgentRegistration)
	}
	flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(flag), "=")
		return slices.Contains(other, name)
	})
	gates, err := features.ParseFlags(component, flags)
	if err != nil {
		return features.GateSet{}, fmt.Errorf("--feature-gates: %w", err)
	}
	return gates, nil
}

// clientConfigs returns the addresses of the member for the hub.
func (f *registrationAgentFlags) clientConfigs(member *rest.Config) ([]clusterv1.ClientConfig, error) {
	own := member.CAData
	if len(own) == 0 && member.CAFile != "" && len(f.externalURLs) > 0 {
		var err error
		if own, err = os.ReadFile(member.CAFile); err != nil {
			return nil, fmt.Errorf("reading the CA of the member: %w", err)
		}
	}
	var configs []clusterv1.ClientConfig
	for i, address := range f.externalURLs {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("--spoke-external-server-urls: %q is not a URL such as https://member.example.com:6443", address)
		}
		bundle := own
		if i < len(f.externalBundles) && f.externalBundles[i] != "" {
			var err error
			if bundle, err = base64.StdEncoding.DecodeString(f.externalBundles[i]); err != nil {
				return nil, fmt.Errorf("--spoke-external-server-ca-bundles: entry %d is not base64: %w", i+1, err)
			}
		}
		configs = append(configs, clusterv1.ClientConfig{URL: address, CABundle: bundle})
	}
	return configs, nil
}

// agentNamespace returns the namespace of the agent.
func agentNamespace(given string) string {
	if given != "" {
		return given
	}
	return process.OwnNamespace(agentNamespaceDefault)
}
