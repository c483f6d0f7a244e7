// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/explain/trial"
	"github.com/capstan-io/capstan/internal/cli/fleet"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
)

// placementTrial is a Placement as the hub would have it.
type placementTrial struct {
	placement *clusterv1beta1.Placement
	// live is the one that is there, nil if there is none.
	live *clusterv1beta1.Placement
	// note says why the hub did not check it; "" if it did.
	note string
}

func tryPlacement(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*placementTrial, error) {
	tried, err := trial.DryRunApply(ctx, c, written)
	if err != nil {
		return nil, err
	}
	t := &placementTrial{note: tried.Note}
	if tried.Now != nil {
		if t.live, err = decodePlacement(tried.Now); err != nil {
			return nil, err
		}
	}
	t.placement, err = decodePlacement(tried.Then)
	return t, err
}

func decodePlacement(object *unstructured.Unstructured) (*clusterv1beta1.Placement, error) {
	p := &clusterv1beta1.Placement{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
		return nil, fmt.Errorf("decode placement %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return p, nil
}

// planPlacements finds out what the Placements would choose. failed are the answers
// for those that the hub does not take, and those with mistakes.
func (p *planCommand) planPlacements(ctx context.Context) (outcomes []*placementOutcome, failed []error, err error) {
	if len(p.manifest.placements) == 0 {
		return nil, nil, nil
	}
	if p.client, err = p.session.ConnectHub(); err != nil {
		return nil, nil, err
	}
	trials, failed, err := p.tryAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := p.readStates(ctx, trials); err != nil {
		return nil, nil, err
	}
	for _, t := range trials {
		o := p.evaluateTrial(t)
		if len(o.Mistakes) > 0 {
			failed = append(failed, &exit.Error{
				Err: fmt.Errorf("placement %s/%s is invalid", o.Namespace, o.Placement), Next: "Fix the fields in the file.",
			})
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, failed, nil
}

// tryAll lets the hub check all Placements. failed are the answers for those that
// it does not take.
func (p *planCommand) tryAll(ctx context.Context) (trials []*placementTrial, failed []error, err error) {
	for _, written := range p.manifest.placements {
		t, err := tryPlacement(ctx, p.client, written)
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			failed = append(failed, &exit.Error{Err: err, Next: "Fix the field in the file."})
		case err != nil:
			return nil, nil, err
		default:
			trials = append(trials, t)
		}
	}
	return trials, failed, nil
}

// readStates reads the state of each namespace once, whatever its placements need.
func (p *planCommand) readStates(ctx context.Context, trials []*placementTrial) error {
	needs := map[string]fleet.Needs{}
	for _, t := range trials {
		needs[t.placement.Namespace] = needs[t.placement.Namespace].MergeNeeds(fleet.NeedsOf(t.placement))
	}
	for namespace, needed := range needs {
		state, err := fleet.ReadNamespaceState(ctx, p.client, namespace, needed)
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

// evaluateTrial finds out what a Placement would choose.
func (p *planCommand) evaluateTrial(t *placementTrial) *placementOutcome {
	state := p.states[t.placement.Namespace]
	var before []placement.ClusterChoice
	if t.live != nil {
		before = placement.ChoicesFromDecisions(t.live, state.Decisions)
	}
	o, _ := evaluatePlacement(t.placement, state, before, p.session.Clock.Now())
	switch {
	case t.live == nil:
		o.Change = trial.New
	case apiequality.Semantic.DeepEqual(t.live.Spec, t.placement.Spec):
		o.Change = trial.Unchanged
	default:
		o.Change = trial.Changed
	}
	o.Notes = append(o.Notes, holdReasons(t.placement)...)
	if t.note != "" {
		o.Notes = append(o.Notes, t.note)
	}
	return o
}

// overlay puts the sets and bindings of the files into the state of a namespace.
func (m *manifest) overlay(ctx context.Context, c client.Client, namespace string, s *fleet.NamespaceState) error {
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

// printPlan prints what is below the headline.
func (o *placementOutcome) printPlan(to io.Writer, now time.Time) {
	o.printProblems(to)
	if rows := o.changeRows(); len(rows) > 1 {
		fmt.Fprint(to, columns.FormatTable(rows))
	}
	o.printNotes(to, now)
}

// changeRows returns a line for each cluster that is chosen or would not be any more.
func (o *placementOutcome) changeRows() [][]string {
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
			rows = append(rows, []string{"-", name, "", "", "it no longer exists"})
		}
	}
	return rows
}
