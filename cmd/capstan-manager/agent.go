// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// agentFlags are the flags of an agent that is one process.
type agentFlags struct {
	registration *registrationAgentFlags
	works        workFlags
}

// newAgentCommand returns the command that runs all parts of an agent in one
// process.
func newAgentCommand() *cobra.Command {
	flags := &agentFlags{registration: defaultRegistrationAgentFlags(), works: defaultWorkFlags()}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Joins a member to its hub and applies the hub's works there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.registration.runRegistrationAgent(cmd.Context(), "agent", moreParts{lease: work.LockName, parts: flags.prepareWorkPart})
		},
	}
	flags.addAgentFlags(cmd.Flags())
	return cmd
}

func (f *agentFlags) addAgentFlags(fs *pflag.FlagSet) {
	f.registration.addRegistrationAgentFlags(fs)
	f.works.addWorkFlags(fs)
	acceptWithoutEffect(fs, "workload-source-config", "cloudevents-client-id", "hub-kubeconfig")
}

// prepareWorkPart returns what adds the part for works.
func (f *agentFlags) prepareWorkPart(logger logr.Logger) (addParts, error) {
	workOptions, err := f.works.workPartOptions(logger, f.registration.gates)
	if err != nil {
		return nil, err
	}
	workOptions = withTracer(workOptions)
	return func(options *agent.PullAgentOptions, group *metrics.CollectorGroup) (func(context.Context) error, error) {
		part, err := newWorkPart(workOptions, group)
		if err != nil {
			return nil, err
		}
		options.Parts = append(options.Parts, part)
		return part.Start, nil
	}, nil
}
