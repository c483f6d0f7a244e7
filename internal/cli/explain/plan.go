// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/fleet"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/placement"
)

// The changes that applying a Placement would be.
const (
	changeNew  = "new"
	changeSome = "changed"
	changeNone = "unchanged"
)

// plan is one call of the command.
type plan struct {
	session   *hub.Session
	files     []string
	namespace string
	output    output

	client   client.Client
	manifest *manifest
	// states are those of the namespaces, with what the files say.
	states map[string]*fleet.State
}

// NewPlan returns the command "plan".
func NewPlan(session *hub.Session) *cobra.Command {
	p := &plan{session: session, states: map[string]*fleet.State{}}
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Say which clusters a Placement would choose if it were applied",
		Long: "Says which clusters each Placement in the files would choose if the files were applied, and what would be different " +
			"from now: + for a cluster that would be chosen, - for one that would not be any more, ~ for one that would get into " +
			"another group. ManagedClusterSets and ManagedClusterSetBindings in the files count as if they were applied; objects of " +
			"other kinds do not matter.\n\n" +
			"It writes nothing: the hub checks the Placements as dry runs, and the decision is made here, on what you may read. It " +
			"names what you may not read.",
		Example: `  # What would this change?
  capstan plan -f web.yaml

  # Of a directory for Kustomize
  kubectl kustomize overlays/prod | capstan plan -f -

  # For a script
  capstan plan -f web.yaml -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	cmd.Flags().StringArrayVarP(&p.files, "filename", "f", nil, "File with Placements, or - for the standard input; may be given several times")
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "", "Namespace of objects that do not name one (default: that of the kubeconfig's context)")
	p.output.addFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
	return cmd
}

func (p *plan) run(ctx context.Context) error {
	if err := p.output.check(); err != nil {
		return err
	}
	if len(p.files) == 0 {
		return exit.UsageError("name a file with Placements by -f, or the standard input by -f -")
	}
	var err error
	if p.manifest, err = readManifest(p.files, p.session.In, namespaceOf(p.session, p.namespace)); err != nil {
		return err
	}
	if p.client, err = p.session.Connect(); err != nil {
		return err
	}
	trials, failed, err := p.tryAll(ctx)
	if err != nil {
		return err
	}
	if err := p.readStates(ctx, trials); err != nil {
		return err
	}
	outcomes := []*outcome{}
	for _, t := range trials {
		o := p.outcome(t)
		if len(o.Mistakes) > 0 {
			failed = append(failed, &exit.Error{
				Err: fmt.Errorf("placement %s/%s has mistakes", o.Namespace, o.Placement), Next: "Mend the fields in the file.",
			})
		}
		outcomes = append(outcomes, o)
	}
	if len(outcomes) > 0 {
		if err := p.output.print(p.session, outcomes, func() string { return p.text(outcomes) }); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// tryAll lets the hub check all Placements. failed are the answers for those that
// it does not take.
func (p *plan) tryAll(ctx context.Context) (trials []*trial, failed []error, err error) {
	for _, written := range p.manifest.placements {
		t, err := try(ctx, p.client, written)
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			failed = append(failed, &exit.Error{Err: err, Next: "Mend the field in the file."})
		case err != nil:
			return nil, nil, err
		default:
			trials = append(trials, t)
		}
	}
	return trials, failed, nil
}

// readStates reads the state of each namespace once, whatever its placements need.
func (p *plan) readStates(ctx context.Context, trials []*trial) error {
	needs := map[string]fleet.Needs{}
	for _, t := range trials {
		needs[t.placement.Namespace] = needs[t.placement.Namespace].With(fleet.NeedsOf(t.placement))
	}
	for namespace, needed := range needs {
		state, err := fleet.Read(ctx, p.client, namespace, needed)
		if err != nil {
			return err
		}
		if err := p.manifest.overlay(ctx, p.client, namespace, state); err != nil {
			return err
		}
		p.states[namespace] = state
	}
	return nil
}

// outcome finds out what a Placement would choose.
func (p *plan) outcome(t *trial) *outcome {
	state := p.states[t.placement.Namespace]
	var before []placement.Choice
	if t.live != nil {
		before = placement.Decided(t.live, state.Decisions)
	}
	o, _ := decide(t.placement, state, before, p.session.Clock.Now())
	switch {
	case t.live == nil:
		o.Change = changeNew
	case apiequality.Semantic.DeepEqual(t.live.Spec, t.placement.Spec):
		o.Change = changeNone
	default:
		o.Change = changeSome
	}
	o.Notes = append(o.Notes, held(t.placement)...)
	if t.note != "" {
		o.Notes = append(o.Notes, t.note)
	}
	return o
}

// overlay puts the sets and bindings of the files into the state of a namespace.
func (m *manifest) overlay(ctx context.Context, c client.Client, namespace string, s *fleet.State) error {
	for _, binding := range m.bindings {
		if binding.Namespace != namespace {
			continue
		}
		s.Bindings = append(slices.DeleteFunc(s.Bindings, func(b clusterv1beta2.ManagedClusterSetBinding) bool { return b.Name == binding.Name }), binding)
	}
	for i := range m.sets {
		s.Sets[m.sets[i].Name] = &m.sets[i]
	}
	return s.ReadSets(ctx, c)
}

func (p *plan) text(outcomes []*outcome) string {
	var b strings.Builder
	for i, o := range outcomes {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "Placement %s/%s (%s), as of now: %s\n", o.Namespace, o.Placement, o.Change, o.headline())
		o.printProblems(&b)
		if rows := o.changes(); len(rows) > 1 {
			b.WriteString(columns.Text(rows))
		}
		o.printNotes(&b, p.session.Clock.Now())
	}
	return b.String()
}

// changes returns a line for each cluster that is chosen or would not be any more.
func (o *outcome) changes() [][]string {
	rows := [][]string{{"", "CLUSTER", "GROUP", "SCORE", "REASON"}}
	known := map[string]bool{}
	for _, v := range o.Clusters {
		known[v.Name] = true
		sign := ""
		switch {
		case slices.Contains(o.Difference.Add, v.Name):
			sign = "+"
		case slices.Contains(o.Difference.Remove, v.Name):
			sign = "-"
		case slices.Contains(o.Difference.Move, v.Name):
			sign = "~"
		case !v.Chosen:
			continue
		}
		row := []string{sign, v.Name, v.groupCell(), "", ""}
		if v.Score != nil {
			row[3] = fmt.Sprint(*v.Score)
		}
		if !v.Chosen {
			row[4] = v.Reason
		}
		rows = append(rows, row)
	}
	for _, name := range o.Difference.Remove {
		if !known[name] {
			rows = append(rows, []string{"-", name, "", "", "it is not there any more"})
		}
	}
	return rows
}
