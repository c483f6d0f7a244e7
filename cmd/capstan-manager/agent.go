// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/features"
)

// sourceKube is the one way that works come from the hub.
const sourceKube = "kube"

// agentFlags are the flags of an agent that is one process.
type agentFlags struct {
	registration *registrationAgentFlags

	source             string
	statusSyncInterval time.Duration
	evictionGrace      time.Duration
}

// newAgentCommand returns the command that runs all parts of an agent in one
// process.
func newAgentCommand() *cobra.Command {
	flags := &agentFlags{
		registration: defaultRegistrationAgentFlags(), source: sourceKube,
		statusSyncInterval: work.DefaultStatusSyncInterval, evictionGrace: work.DefaultEvictionGracePeriod,
	}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Joins a member to its hub and applies the hub's works there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.registration.run(cmd.Context(), "agent", moreParts{lease: work.LockName, parts: flags.work})
		},
	}
	flags.add(cmd.Flags())
	return cmd
}

func (f *agentFlags) add(fs *pflag.FlagSet) {
	f.registration.add(fs)
	fs.StringVar(&f.source, "workload-source-driver", f.source, "way that works come from the hub; there is kube")
	fs.DurationVar(&f.statusSyncInterval, "status-sync-interval", f.statusSyncInterval, "time between looks at objects that are not watched")
	fs.DurationVar(&f.evictionGrace, "appliedmanifestwork-eviction-grace-period", f.evictionGrace,
		"time that objects of a work stay after it vanished without a deletion; 100 years or more is for ever")
	acceptWithoutEffect(fs, "workload-source-config", "cloudevents-client-id", "hub-kubeconfig", "max-feedback-watch")
}

// work adds the part for works.
func (f *agentFlags) work(logger logr.Logger, options *agent.Options) (func(context.Context) error, error) {
	if f.source != "" && f.source != sourceKube {
		return nil, fmt.Errorf("--workload-source-driver: %q is not supported; there is %q", f.source, sourceKube)
	}
	gates, err := parseGatesOf(features.AgentWork, f.registration.gates)
	if err != nil {
		return nil, err
	}
	part, err := work.New(work.Options{
		Logger: logger.WithName("work"), StatusSyncInterval: f.statusSyncInterval, EvictionGracePeriod: f.evictionGrace,
		KeepExecutorDecisions: gates.Enabled(features.ExecutorValidatingCaches),
	})
	if err != nil {
		return nil, err
	}
	options.Parts = append(options.Parts, part)
	return part.Start, nil
}
