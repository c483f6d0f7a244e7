// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rebalance is the command that has the clusters of objects chosen anew,
// or says what would move.
package rebalance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/output"
	"github.com/capstan-io/capstan/internal/cli/progress"
)

// defaultTimeout is how long the command waits. The hub chooses in a moment, unless
// many others wait.
const defaultTimeout = 2 * time.Minute

// rebalanceCommand is one call of the command.
type rebalanceCommand struct {
	session   *hub.Session
	namespace string
	mode      dryrun.Mode
	format    output.Format
	wait      bool
	timeout   time.Duration

	// reader knows all kinds of the hub; client writes.
	reader client.Reader
	client client.WithWatch
	steps  *progress.StepPrinter
}

// NewRebalanceCommand returns the command "rebalance".
func NewRebalanceCommand(session *hub.Session) *cobra.Command {
	c := &rebalanceCommand{session: session}
	cmd := &cobra.Command{
		Use:   "rebalance KIND NAME... [-n NAMESPACE]",
		Short: "Reschedule objects onto new clusters and freed capacity",
		Long: "Reschedules objects that policies send to clusters, as if they were new: divided replicas may move, and of " +
			"clusterAffinities the first group is tried first. Otherwise, divided replicas stay where they are when clusters " +
			"join or capacity is freed.\n\n" +
			"It creates a WorkloadRebalancer, waits until the clusters are chosen, and shows what has moved. The rebalancer is " +
			"deleted an hour later. With --dry-run it only shows what would move: the hub's own engine makes the decision on " +
			"this machine, from what you may read.",
		Example: `  # What would move?
  capstan rebalance deployment web -n shop --dry-run

  # Move it
  capstan rebalance deployment web -n shop

  # Several at once, for a script
  capstan rebalance deployment web db -n shop -o json`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, names, err := kindAndNames(args)
			if err != nil {
				return err
			}
			return c.runRebalance(cmd.Context(), kind, names)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.namespace, "namespace", "n", "", "Namespace of the objects (default: that of the kubeconfig's context)")
	flags.BoolVar(&c.wait, "wait", true, "Wait until the clusters are chosen")
	flags.DurationVar(&c.timeout, "timeout", defaultTimeout, "How long to wait")
	c.mode.AddBareFlag(cmd)
	c.format.AddFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
	return cmd
}

// kindAndNames takes KIND NAME... or KIND/NAME.
func kindAndNames(args []string) (kind string, names []string, err error) {
	if len(args) == 1 {
		kind, name, is := strings.Cut(args[0], "/")
		if is && kind != "" && name != "" && !strings.Contains(name, "/") {
			return kind, []string{name}, nil
		}
		return "", nil, exit.UsageError("name the objects, as KIND NAME... or KIND/NAME")
	}
	if len(args) == 0 || strings.Contains(strings.Join(args, ""), "/") {
		return "", nil, exit.UsageError("name the objects, as KIND NAME... or KIND/NAME")
	}
	return args[0], args[1:], nil
}

func (c *rebalanceCommand) runRebalance(ctx context.Context, kind string, names []string) error {
	if err := c.format.CheckFormat(); err != nil {
		return err
	}
	if err := c.mode.ValidateMode(); err != nil {
		return err
	}
	c.steps = progress.NewStepPrinter(c.session.ErrOut)
	workloads, err := c.findWorkloads(ctx, kind, names)
	if err != nil {
		return err
	}
	fleet, unread, err := c.readFleet(ctx)
	if err != nil {
		return err
	}
	forecasts := forecasts{fleet: fleet, at: c.session.Clock.Now()}
	r := &WorkloadsReport{Expected: true, Unread: unread, Workloads: make([]WorkloadMoves, 0, len(workloads))}
	for _, w := range workloads {
		forecast := forecasts.forecastWorkload(w)
		if forecast.hindered != "" && c.mode.MakesChanges() {
			return exit.Next(fmt.Errorf("%s would not be rebalanced: %s", w, forecast.hindered), "%s", forecast.remedy)
		}
		r.Workloads = append(r.Workloads, forecast)
	}
	switch {
	case c.mode.Skips():
	case !c.mode.MakesChanges():
		if _, err := c.createRebalancer(ctx, c.mode.WrapClient(c.client), workloads); err != nil {
			return err
		}
	default:
		if err := c.moveWorkloads(ctx, workloads, r); err != nil {
			return err
		}
	}
	return c.format.Print(c.session.Out, r, func() string { return r.formatReport(c.mode.Suffix()) })
}

// moveWorkloads has the clusters chosen anew, and makes the report say what has become of
// that.
func (c *rebalanceCommand) moveWorkloads(ctx context.Context, workloads []*boundWorkload, r *WorkloadsReport) error {
	patience, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var asked *appsv1alpha1.WorkloadRebalancer
	err := c.steps.RunStep("Asking for new clusters", func() (err error) {
		asked, err = c.askInTime(ctx, patience, workloads)
		return err
	})
	if err != nil {
		return err
	}
	r.Rebalancer = asked.Name
	if !c.wait {
		return nil
	}
	r.Workloads = r.Workloads[:0]
	r.Expected = false
	return c.steps.RunStep("Waiting until the clusters are chosen", func() error {
		for _, w := range workloads {
			after, err := c.awaitScheduled(ctx, patience, w, asked.CreationTimestamp.Time)
			if err != nil {
				return err
			}
			r.Workloads = append(r.Workloads, actualMoves(w, after))
		}
		return nil
	})
}
