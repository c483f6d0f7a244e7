// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/test/lab/internal/lab"
)

func newUpCommand(open opener) *cobra.Command {
	var names []string
	var nodeless bool
	var file string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make and start clusters",
		Long: `Make and start clusters, beside those there are already.

Without --name and --config it starts the clusters there are; if there are
none, it makes hub, member1 and member2.`,
		Args: cobra.NoArgs,
		RunE: open.do(func(ctx context.Context, l *lab.Lab, _ []string) error {
			var config lab.Config
			var err error
			switch {
			case file != "":
				if config, err = lab.ReadConfig(file); err != nil {
					return err
				}
			case len(names) == 0 && nodeless:
				return errors.New("--nodeless needs --name")
			case len(names) == 0 && l.IsEmpty():
				config = lab.DefaultConfig()
			}
			for _, name := range names {
				config.Clusters = append(config.Clusters, lab.Cluster{Name: name, Nodeless: nodeless})
			}
			return l.Up(ctx, config)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&names, "name", nil, "name of a cluster; can be given more than once")
	flags.BoolVar(&nodeless, "nodeless", false, "make the clusters without nodes: they keep objects but run no pods")
	flags.StringVar(&file, "config", "", "YAML file with the clusters to make")
	cmd.MarkFlagsMutuallyExclusive("name", "config")
	cmd.MarkFlagsMutuallyExclusive("nodeless", "config")
	return cmd
}

func newDownCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove all clusters and everything that belongs to them",
		Args:  cobra.NoArgs,
		RunE: open.do(func(ctx context.Context, l *lab.Lab, _ []string) error {
			return l.Down(ctx)
		}),
	}
}

func newStartCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "start NAME...",
		Short: "Start clusters that were stopped",
		Args:  cobra.MinimumNArgs(1),
		RunE: open.do(func(ctx context.Context, l *lab.Lab, names []string) error {
			return l.Start(ctx, names...)
		}),
	}
}

func newStopCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop clusters as a power cut would, keeping what they stored",
		Args:  cobra.MinimumNArgs(1),
		RunE: open.do(func(ctx context.Context, l *lab.Lab, names []string) error {
			return l.Stop(ctx, names...)
		}),
	}
}

func newPartitionCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "partition A B",
		Short: "Cut the network between two clusters",
		Args:  cobra.ExactArgs(2),
		RunE: open.do(func(_ context.Context, l *lab.Lab, names []string) error {
			return l.Partition(names[0], names[1])
		}),
	}
}

func newHealCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "heal A B",
		Short: "Mend the network between two clusters",
		Args:  cobra.ExactArgs(2),
		RunE: open.do(func(_ context.Context, l *lab.Lab, names []string) error {
			return l.Heal(names[0], names[1])
		}),
	}
}

func newStatusCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell how the clusters are",
		Args:  cobra.NoArgs,
		RunE: open.do(func(_ context.Context, l *lab.Lab, _ []string) error {
			statuses, err := l.Status()
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
			fmt.Fprintln(table, "NAME\tSTATE\tNODE\tMEMORY\tAPI SERVER\tREMARKS")
			for _, s := range statuses {
				fmt.Fprintf(table, "%s\t%s\t%t\t%d MiB\t%s\t%s\n",
					s.Name, s.State, !s.Nodeless, s.Memory>>20, s.URL, remarks(s))
			}
			return table.Flush()
		}),
	}
}

// remarks tells what is out of the ordinary with a cluster.
func remarks(s lab.Status) string {
	var remarks []string
	if s.State == lab.StateDegraded {
		remarks = append(remarks, "not running: "+strings.Join(s.Missing, ", "))
	}
	if len(s.CutOff) > 0 {
		remarks = append(remarks, "cut off from: "+strings.Join(s.CutOff, ", "))
	}
	return strings.Join(remarks, "; ")
}
