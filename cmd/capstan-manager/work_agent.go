// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/agent/parts"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/agent/work/hubfile"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
)

// hubKubeconfigDefault is where the klusterlet operator mounts the credential
// that the registration agent gets.
const hubKubeconfigDefault = "/spoke/hub-kubeconfig/kubeconfig"

// workAgentFlags are the flags of the agent that only applies works.
type workAgentFlags struct {
	client   options.ClientOptions
	election options.LeaderElection
	server   options.ServerOptions

	works workFlags

	namespace       string
	spokeKubeconfig string
	clusterName     string
	hubKubeconfig   string
	sourceConfig    string
	agentID         string
	hubQPS          float32
	hubBurst        int
	gates           []string
	verbosity       int
}

// newWorkAgentCommand returns the command that runs the work part of an agent
// alone, with the hub credential that a registration agent gets.
func newWorkAgentCommand() *cobra.Command {
	flags := &workAgentFlags{
		election: options.DefaultLeaderElection(), server: options.DefaultServer(), works: defaultWorkFlags(),
	}
	cmd := &cobra.Command{
		Use:   "work-agent",
		Short: "Applies the hub's works on a member",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.runWorkAgent(cmd.Context()) },
	}
	flags.addWorkAgentFlags(cmd.Flags())
	return cmd
}

func (f *workAgentFlags) addWorkAgentFlags(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
	fs.StringVar(&f.namespace, "agent-namespace", "", "namespace of the Lease of the election; that of the pod if empty")
	fs.StringVar(&f.namespace, "component-namespace", "", "another name of --agent-namespace")
	fs.StringVar(&f.spokeKubeconfig, "spoke-kubeconfig", "", "kubeconfig file of the member; that of --kubeconfig if empty")
	fs.StringVar(&f.clusterName, "spoke-cluster-name", "",
		"name of the cluster on the hub; what the file cluster-name beside the hub kubeconfig says if empty")
	fs.StringVar(&f.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig file of the hub; --workload-source-config if empty")
	fs.StringVar(&f.sourceConfig, "workload-source-config", hubKubeconfigDefault, "kubeconfig file of the hub")
	fs.StringVar(&f.agentID, "agent-id", "", "tells this agent from others of the same member; the UID of the Klusterlet")
	fs.Float32Var(&f.hubQPS, "hub-kube-api-qps", 0, "requests per second to the hub; 0 is no limit")
	fs.IntVar(&f.hubBurst, "hub-kube-api-burst", 0, "requests above the limit of --hub-kube-api-qps for a moment")
	f.works.addWorkFlags(fs)
	fs.StringSliceVar(&f.gates, "feature-gates", nil,
		fmt.Sprintf("feature gates as NAME=true or NAME=false; there are %q", features.GateNames(features.AgentWork)))
	acceptWithoutEffect(fs, "cloudevents-client-id", "terminate-on-files")
}

// clusterConfigs returns the configurations of the agent's own cluster and of the member.
func (f *workAgentFlags) clusterConfigs() (home, member *rest.Config, err error) {
	if home, err = f.client.ClientConfig(); err != nil {
		return nil, nil, err
	}
	if f.spokeKubeconfig == "" {
		return home, home, nil
	}
	spoke := options.ClientOptions{Kubeconfig: f.spokeKubeconfig, QPS: f.client.QPS, Burst: f.client.Burst}
	if member, err = spoke.ClientConfig(); err != nil {
		return nil, nil, err
	}
	return home, member, nil
}

func (f *workAgentFlags) runWorkAgent(ctx context.Context) error {
	debug.SetGCPercent(agentGCPercent)
	logger, err := logging.SetupLogger(f.verbosity)
	if err != nil {
		return err
	}
	workOptions, err := f.works.workPartOptions(logger, f.gates)
	if err != nil {
		return err
	}
	home, member, err := f.clusterConfigs()
	if err != nil {
		return err
	}
	workOptions = withTracer(workOptions)
	lead, err := process.WithLeaderElection(home, f.election, agentNamespace(f.namespace), []string{work.LockName},
		func(ctx context.Context) error { return f.leadWorkAgent(ctx, member, workOptions, logger) })
	if err != nil {
		return err
	}
	return process.ServeWhile(ctx, f.server, home, "work-agent", lead)
}

// leadWorkAgent applies works until ctx ends. It may be called again then.
func (f *workAgentFlags) leadWorkAgent(ctx context.Context, member *rest.Config, o work.PartOptions, logger logr.Logger) error {
	group := metrics.NewCollectorGroup(controllermetrics.Registry)
	defer group.UnregisterAll()
	part, err := newWorkPart(o, group)
	if err != nil {
		return err
	}
	file := f.hubKubeconfig
	if file == "" {
		file = f.sourceConfig
	}
	follower := hubfile.NewKubeconfigFollower(hubfile.FollowerOptions{
		File: file, ClusterName: f.clusterName, AgentID: f.agentID, Member: member,
		QPS: f.hubQPS, Burst: f.hubBurst, Registry: parts.NewRegistry(logger, nil, part), Log: logger,
	})
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return part.Start(ctx) })
	running.Go(func() error { return follower.RunFollower(ctx) })
	return running.Wait()
}
