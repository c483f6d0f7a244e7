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

// doctorCommand is one call of the command.
type doctorCommand struct {
	session *hub.Session
	member  member.KubeconfigFlags
	output  string
	// limit ends what the doctor waits for: it is its patience.
	limit func(context.Context) (context.Context, context.CancelFunc)
}

// NewDoctorCommand returns the command "doctor".
func NewDoctorCommand(session *hub.Session) *cobra.Command {
	d := &doctorCommand{session: session, limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, patience)
	}}
	cmd := &cobra.Command{
		Use:   "doctor [CLUSTER]",
		Short: "Diagnose what is broken and how to fix it",
		Long: "Checks every step by which a cluster joins and gets its works, and reports which steps are broken, why, and " +
			"what to do. The first broken step is repeated at the end, since it is the one to fix: later ones may be broken " +
			"because of it.\n\n" +
			"Without a name, it checks the hub, all clusters as far as the hub knows their state, whether placements choose " +
			"clusters, and whether replica sets progress. With the name of a cluster, it checks each of its steps, and with " +
			"--cluster-kubeconfig the member as well. It names what it may not read, and does not guess.\n\n" +
			"It changes nothing: all it creates on the hub are reviews and dry runs. It uses the agents' credentials, which it " +
			"finds in the member, only to ask the hub what they may do. It finishes within ten seconds, even if something does " +
			"not respond.",
		Example: `  # The hub, and a line for each cluster
  capstan doctor

  # Why does this cluster not join, or not get its works?
  capstan doctor member1 --cluster-kubeconfig member1.kubeconfig

  # For a script
  capstan doctor member1 -o json`,
		Args:              args.AtMostOne("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.runDoctor(cmd.Context(), args) },
	}
	d.member.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&d.output, "output", "o", "", "Output format. One of: (json, yaml)")
	return cmd
}

func (d *doctorCommand) runDoctor(ctx context.Context, args []string) error {
	switch {
	case d.output != "" && d.output != "json" && d.output != "yaml":
		return exit.UsageError("--output: unknown format %q; the formats are json and yaml", d.output)
	case len(args) == 0 && d.member.Given():
		return exit.UsageError("a member was given without a name: name the cluster that it is on the hub")
	}
	limited, cancel := d.limit(ctx)
	defer cancel()
	var r *doctorReport
	var err error
	if len(args) == 0 {
		r, err = d.diagnoseFleet(limited)
	} else {
		r, err = d.diagnoseCluster(limited, args[0])
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := r.printReport(d.session.Out, d.output); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return r.exitError()
}

// diagnoseFleet looks at the hub and, by what the hub knows, at all clusters, and then at
// what chooses them.
func (d *doctorCommand) diagnoseFleet(ctx context.Context) (*doctorReport, error) {
	settings, err := d.session.LoadRESTConfig()
	if err != nil {
		return nil, err
	}
	var about evidence.Evidence
	var clusters evidence.Reading[[]*evidence.ClusterEvidence]
	err = runParallel(
		func() (err error) { about.Hub, err = d.gatherHubEvidence(ctx, settings); return err },
		func() (err error) { clusters, err = evidence.GatherFleet(ctx, settings); return err },
		func() error { return about.GatherPlacements(ctx, settings) },
	)
	if err != nil {
		return nil, err
	}
	r := newReport(about.Hub.Server, diagnosis.DiagnoseHub(&about))
	if !isHub(about.Hub) {
		return r, nil
	}
	if clusters.Err != nil {
		return nil, d.session.ExplainError(fmt.Errorf("list the clusters: %w", clusters.Err))
	}
	for _, c := range clusters.Value {
		r.addClusterLine(c, diagnosis.DiagnoseClusterFromLists(&evidence.Evidence{Hub: about.Hub, Cluster: c}))
	}
	r.addSteps(diagnosis.DiagnosePlacements(&about))
	return r, nil
}

// diagnoseCluster looks at the hub, one cluster and, if it was given, the member.
func (d *doctorCommand) diagnoseCluster(ctx context.Context, name string) (*doctorReport, error) {
	settings, err := d.session.LoadRESTConfig()
	if err != nil {
		return nil, err
	}
	var connected *member.Member
	if d.member.Given() {
		if connected, err = d.member.ConnectMember(d.session.ErrOut); err != nil {
			return nil, err
		}
	}
	var about evidence.Evidence
	err = runParallel(
		func() (err error) { about.Hub, err = d.gatherHubEvidence(ctx, settings); return err },
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
		about.Member.UID.Err = connected.ExplainError(about.Member.UID.Err)
	}
	steps := diagnosis.DiagnoseHub(&about)
	if isHub(about.Hub) {
		steps = append(steps, diagnosis.DiagnoseCluster(&about)...)
	}
	r := newReport(about.Hub.Server, steps)
	r.setCluster(about.Cluster, about.Member != nil)
	return r, nil
}

// gatherHubEvidence gathers about the hub, and explains why it does not answer.
func (d *doctorCommand) gatherHubEvidence(ctx context.Context, settings *rest.Config) (*evidence.HubEvidence, error) {
	h, err := evidence.GatherHub(ctx, settings, d.session.Clock.Now())
	if err != nil {
		return nil, err
	}
	h.Version.Err = d.session.ExplainError(h.Version.Err)
	return h, nil
}

func isHub(h *evidence.HubEvidence) bool {
	return h.Version.Found && (h.KnownKinds > 0 || h.KindsErr != nil)
}

// runParallel does all tasks at the same time and returns all their errors.
func runParallel(tasks ...func() error) error {
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
