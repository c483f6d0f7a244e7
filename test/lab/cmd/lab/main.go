// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lab runs Kubernetes clusters with real nodes on this machine, as
// plain processes: without a container engine, a virtual machine or a registry.
// The tests and the demo of Capstan run on them.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/test/lab/internal/daemon"
	"github.com/capstan-io/capstan/test/lab/internal/lab"
	"github.com/capstan-io/capstan/test/lab/internal/progress"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatalf("lab: %v", err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return newRootCommand().ExecuteContext(ctx)
}

func newRootCommand() *cobra.Command {
	var dir string
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Run Kubernetes clusters with real nodes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dir, "dir", lab.DefaultDir(), "directory that the lab keeps everything in; its default is $"+lab.DirVariable)
	steps := progress.New(os.Stderr)
	var open opener = func() (*lab.Lab, error) { return lab.Open(dir, steps) }
	var openBroken opener = func() (*lab.Lab, error) { return lab.New(dir, steps) }
	root.AddCommand(
		newPrerequisitesCommand(),
		newUpCommand(open),
		newDownCommand(openBroken),
		newLeftoversCommand(openBroken),
		newStatusCommand(open),
		newStartCommand(open),
		newStopCommand(open),
		newPartitionCommand(open),
		newHealCommand(open),
		newKubeconfigCommand(open),
		newExecCommand(open),
		newLoadImageCommand(open),
		newImageCommand(),
		newAssetsCommand(),
		newLaunchCommand(),
	)
	return root
}

// opener returns the lab that the command line refers to.
type opener func() (*lab.Lab, error)

// action is what a command does with the lab.
type action func(ctx context.Context, l *lab.Lab, args []string) error

// do makes an action the function of a command.
func (open opener) do(act action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := open()
		if err != nil {
			return err
		}
		return act(cmd.Context(), l, args)
	}
}

// newLaunchCommand returns the command that becomes a daemon; see the package
// daemon.
func newLaunchCommand() *cobra.Command {
	return &cobra.Command{
		Use:                daemon.LaunchCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return daemon.Launch(args)
		},
	}
}
