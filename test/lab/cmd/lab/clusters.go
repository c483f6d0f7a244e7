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
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/test/lab/internal/inventory"
	"github.com/capstan-io/capstan/test/lab/internal/lab"
	"github.com/capstan-io/capstan/test/lab/internal/machine"
)

func newUpCommand(open opener) *cobra.Command {
	var names []string
	var nodeless, fsync, install bool
	var signing time.Duration
	var file string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make and start clusters",
		Long: `Make and start clusters, beside those there are already.

Without --name and --config it starts the clusters there are; if there are
none, it makes hub and member1. What runs already is left alone.`,
		Args: cobra.NoArgs,
		RunE: open.do(func(ctx context.Context, l *lab.Lab, _ []string) error {
			var config inventory.Config
			var err error
			switch {
			case file != "":
				if config, err = inventory.ReadConfig(file); err != nil {
					return err
				}
			case len(names) == 0 && (nodeless || fsync || signing != 0):
				return errors.New("--nodeless, --fsync and --signing-duration need --name")
			case len(names) == 0 && l.IsEmpty():
				config = inventory.DefaultConfig()
			}
			for _, name := range names {
				config.Clusters = append(config.Clusters, inventory.Cluster{
					Name:            name,
					Nodeless:        nodeless,
					Fsync:           fsync,
					SigningDuration: metav1.Duration{Duration: signing},
				})
			}
			if install {
				if err := machine.InstallPrerequisites(ctx, l.HasNodes(config), os.Stderr); err != nil {
					return err
				}
			}
			return l.Up(ctx, config)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&names, "name", nil, "name of a cluster; can be given more than once")
	flags.BoolVar(&nodeless, "nodeless", false, "make the clusters without nodes: they keep objects but run no pods")
	flags.BoolVar(&fsync, "fsync", false, "let etcd wait for the disk, as it does in production: for benchmarks")
	flags.DurationVar(&signing, "signing-duration", 0, "how long certificates last at most that the clusters sign on request (default one year)")
	flags.StringVar(&file, "config", "", "YAML file with the clusters to make")
	addInstallFlag(flags, &install)
	cmd.MarkFlagsMutuallyExclusive("name", "config")
	cmd.MarkFlagsMutuallyExclusive("nodeless", "config")
	cmd.MarkFlagsMutuallyExclusive("fsync", "config")
	cmd.MarkFlagsMutuallyExclusive("signing-duration", "config")
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

func newLeftoversCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "leftovers",
		Short: "List what the machine has of the lab, and fail if that is anything",
		Long: `List what the machine has of the lab: processes, control groups, mounts,
network namespaces, network interfaces, firewall rules and files.

It fails if there is anything: after "lab down" there must be nothing.`,
		Args: cobra.NoArgs,
		RunE: open.do(func(_ context.Context, l *lab.Lab, _ []string) error {
			left, err := l.Leftovers()
			for _, what := range left {
				fmt.Println(what)
			}
			if err != nil {
				return err
			}
			if len(left) > 0 {
				return fmt.Errorf("the machine has %d things of the lab %s: lab down removes them", len(left), l.Dir())
			}
			fmt.Printf("the machine has nothing of the lab %s\n", l.Dir())
			return nil
		}),
	}
}

func newStartCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "start NAME...",
		Short: "Start clusters, or daemons of clusters, that were stopped",
		Args:  cobra.MinimumNArgs(1),
		RunE: open.do(func(ctx context.Context, l *lab.Lab, names []string) error {
			return l.Start(ctx, names...)
		}),
	}
}

func newStopCommand(open opener) *cobra.Command {
	var components []string
	cmd := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop clusters as a power cut would, keeping what they stored",
		Long: `Stop clusters as a power cut would, keeping what they stored.

With --component, only that daemon of the one cluster is killed, and the rest
of the cluster goes on without it. "lab start NAME" starts it again.`,
		Args: cobra.MinimumNArgs(1),
		RunE: open.do(func(ctx context.Context, l *lab.Lab, names []string) error {
			switch {
			case len(components) == 0:
				return l.Stop(ctx, names...)
			case len(names) > 1:
				return errors.New("--component needs one cluster")
			default:
				return l.StopComponents(ctx, names[0], components...)
			}
		}),
	}
	cmd.Flags().StringSliceVar(&components, "component", nil, "daemon to stop, such as kube-apiserver; can be given more than once")
	return cmd
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
