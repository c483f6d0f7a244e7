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
			return flags.registration.run(cmd.Context(), "agent", moreParts{lease: work.LockName, parts: flags.work})
		},
	}
	flags.add(cmd.Flags())
	return cmd
}

func (f *agentFlags) add(fs *pflag.FlagSet) {
	f.registration.add(fs)
	f.works.add(fs)
	acceptWithoutEffect(fs, "workload-source-config", "cloudevents-client-id", "hub-kubeconfig")
}

// work returns what adds the part for works.
func (f *agentFlags) work(logger logr.Logger) (addParts, error) {
	workOptions, err := f.works.options(logger, f.registration.gates)
	if err != nil {
		return nil, err
	}
	workOptions = traced(workOptions)
	return func(options *agent.Options, group *metrics.Group) (func(context.Context) error, error) {
		part, err := newWorkPart(workOptions, group)
		if err != nil {
			return nil, err
		}
		options.Parts = append(options.Parts, part)
		return part.Start, nil
	}, nil
}
