// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor is the command that finds out what is broken.
//
// It gathers (package evidence), decides (package diagnosis), and prints.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/doctor/diagnosis"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/member"
)

// patience is how long everything together may take, whoever does not answer.
const patience = 9 * time.Second

// doctor is one call of the command.
type doctor struct {
	session *hub.Session
	member  member.Flags
	output  string
	// limit ends what the doctor waits for: it is its patience.
	limit func(context.Context) (context.Context, context.CancelFunc)
}

// New returns the command "doctor".
func New(session *hub.Session) *cobra.Command {
	d := &doctor{session: session, limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, patience)
	}}
	cmd := &cobra.Command{
		Use:   "doctor [CLUSTER]",
		Short: "Find out what is broken and what to do about it",
		Long: "Checks every step by which a cluster joins and gets what is declared for it, and says which ones are broken, " +
			"why, and what to do. The first broken step is repeated at the end, since it is the one to fix: later ones may be " +
			"broken because of it.\n\n" +
			"Without a name, it checks the hub, all clusters as far as the hub knows about them, whether placements choose clusters, and whether replica sets progress. With the name of a " +
			"cluster, it checks each of its steps, and with --cluster-kubeconfig also the member. It says what it may not " +
			"read, and does not guess.\n\n" +
			"It changes nothing: all it creates on the hub are reviews and dry runs. It uses the agents' credentials, which " +
			"it finds in the member, only to ask the hub what they may do. It ends within ten seconds, even if something does " +
			"not respond.",
		Example: `  # The hub, and a line for each cluster
  capstan doctor

  # Why does this cluster not join, or not get its works?
  capstan doctor member1 --cluster-kubeconfig member1.kubeconfig

  # For a script
  capstan doctor member1 -o json`,
		Args:              args.AtMostOne("the name of the cluster"),
		ValidArgsFunction: complete.Clusters(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args) },
	}
	d.member.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&d.output, "output", "o", "", "Output format. One of: (json, yaml)")
	return cmd
}

func (d *doctor) run(ctx context.Context, args []string) error {
	switch {
	case d.output != "" && d.output != "json" && d.output != "yaml":
		return exit.UsageError("--output: there is no format %q; there are json and yaml", d.output)
	case len(args) == 0 && d.member.Given():
		return exit.UsageError("a member was given, and no name: say which cluster of the hub it is")
	}
	limited, cancel := d.limit(ctx)
	defer cancel()
	var r *report
	var err error
	if len(args) == 0 {
		r, err = d.fleet(limited)
	} else {
		r, err = d.cluster(limited, args[0])
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := r.print(d.session.Out, d.output); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return r.verdict()
}

// fleet looks at the hub and, by what the hub knows, at all clusters, and then at
// what chooses them.
func (d *doctor) fleet(ctx context.Context) (*report, error) {
	settings, err := d.session.Config()
	if err != nil {
		return nil, err
	}
	var about evidence.Evidence
	var clusters evidence.Reading[[]*evidence.Cluster]
	err = both(
		func() (err error) { about.Hub, err = d.hub(ctx, settings); return err },
		func() (err error) { clusters, err = evidence.GatherFleet(ctx, settings); return err },
		func() error { return about.GatherPlacements(ctx, settings) },
	)
	if err != nil {
		return nil, err
	}
	r := newReport(about.Hub.Server, diagnosis.Hub(&about))
	if !isHub(about.Hub) {
		return r, nil
	}
	if clusters.Err != nil {
		return nil, d.session.Explain(fmt.Errorf("list the clusters: %w", clusters.Err))
	}
	for _, c := range clusters.Value {
		r.glance(c, diagnosis.Glance(&evidence.Evidence{Hub: about.Hub, Cluster: c}))
	}
	r.add(diagnosis.Placements(&about))
	return r, nil
}

// cluster looks at the hub, one cluster and, if it was given, the member.
func (d *doctor) cluster(ctx context.Context, name string) (*report, error) {
	settings, err := d.session.Config()
	if err != nil {
		return nil, err
	}
	var connected *member.Member
	if d.member.Given() {
		if connected, err = d.member.Connect(d.session.ErrOut); err != nil {
			return nil, err
		}
	}
	var about evidence.Evidence
	err = both(
		func() (err error) { about.Hub, err = d.hub(ctx, settings); return err },
		func() (err error) { about.Cluster, err = evidence.GatherCluster(ctx, settings, name); return err },
		func() (err error) {
			if connected == nil {
				return nil
			}
			about.Member, err = evidence.GatherMember(ctx, connected.Config, name)
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	if about.Member != nil {
		about.Member.UID.Err = connected.Explain(about.Member.UID.Err)
	}
	steps := diagnosis.Hub(&about)
	if isHub(about.Hub) {
		steps = append(steps, diagnosis.Cluster(&about)...)
	}
	r := newReport(about.Hub.Server, steps)
	r.of(about.Cluster, about.Member != nil)
	return r, nil
}

// hub gathers about the hub, and explains why it does not answer.
func (d *doctor) hub(ctx context.Context, settings *rest.Config) (*evidence.Hub, error) {
	h, err := evidence.GatherHub(ctx, settings, d.session.Clock.Now())
	if err != nil {
		return nil, err
	}
	h.Version.Err = d.session.Explain(h.Version.Err)
	return h, nil
}

func isHub(h *evidence.Hub) bool { return h.Version.Found && (h.KnownKinds > 0 || h.KindsErr != nil) }

// both does all tasks at the same time and returns all their errors.
func both(tasks ...func() error) error {
	results := make(chan error, len(tasks))
	for _, task := range tasks {
		go func() { results <- task() }()
	}
	var failed error
	for range tasks {
		failed = errors.Join(failed, <-results)
	}
	return failed
}
