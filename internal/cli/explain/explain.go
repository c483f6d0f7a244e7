// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain explains which clusters are chosen, and why: those of what is on
// the hub, and those of what somebody is about to declare. It follows objects
// that policies send to clusters all the way.
//
// It runs the engine of the hub on what the user may read, so it needs no right
// but that, and nothing has to be kept for it on the hub.
package explain

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/fleet"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// NewExplainCommand returns the command "explain".
func NewExplainCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain which clusters are chosen, and why",
	}
	addObjects(cmd, session)
	cmd.AddCommand(newPlacement(session), newBinding(session), newClusterBinding(session))
	return cmd
}

// explainCommand is one call of the command.
type explainCommand struct {
	session   *hub.Session
	namespace string
	cluster   string
	output    outputFormat
}

func newPlacement(session *hub.Session) *cobra.Command {
	e := &explainCommand{session: session}
	cmd := &cobra.Command{
		Use:     "placement NAME [-n NAMESPACE]",
		Aliases: []string{"placements"},
		Short:   "Explain which clusters a Placement selects, and why the others are not selected",
		Long: "Shows, for every cluster, whether the Placement selects it, and why or why not. With --cluster, it shows " +
			"everything about one cluster: the verdict of each filter, the score by prioritizer, and its rank.\n\n" +
			"It makes the decision again, as of now, from what you may read on the hub, with the stored decision as the " +
			"previous one. If the outcome differs, it says so. It names what you may not read, and changes nothing.",
		Example: `  # Which clusters, and why not the others?
  capstan explain placement web -n team-a

  # Why not this one?
  capstan explain placement web -n team-a --cluster member3

  # For a script
  capstan explain placement web -n team-a -o json`,
		Args:              args.One("the name of the Placement"),
		ValidArgsFunction: complete.PlacementNameCompletion(session, func() string { return session.NamespaceOf(e.namespace) }),
		RunE:              func(cmd *cobra.Command, args []string) error { return e.explainPlacement(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVarP(&e.namespace, "namespace", "n", "", "Namespace of the Placement (default: that of the kubeconfig's context)")
	cmd.Flags().StringVar(&e.cluster, "cluster", "", "Show everything about this cluster")
	e.output.addFlag(cmd)
	// The flags are there and have no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
	_ = cmd.RegisterFlagCompletionFunc("cluster", complete.ClusterNamesCompletion(session))
	return cmd
}

func (e *explainCommand) explainPlacement(ctx context.Context, name string) error {
	if err := e.output.checkFormat(); err != nil {
		return err
	}
	c, err := e.session.ConnectHub()
	if err != nil {
		return err
	}
	namespace := e.session.NamespaceOf(e.namespace)
	p := &clusterv1beta1.Placement{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
	if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
		return exit.Next(fmt.Errorf("there is no placement %q in namespace %q", name, namespace), "\"capstan get placements -A\" lists those that exist.")
	}
	if err != nil {
		return err
	}
	state, err := fleet.ReadNamespaceState(ctx, c, namespace, fleet.NeedsOf(p))
	if err != nil {
		return err
	}
	o, result := evaluatePlacement(p, state, placement.ChoicesFromDecisions(p, state.Decisions), e.session.Clock.Now())
	o.Notes = append(o.Notes, holdReasons(p)...)
	if !o.Difference.isEmpty() {
		o.Notes = append(o.Notes, staleDecisionReason(p, o))
	}
	if e.cluster != "" {
		if err := e.selectVerdict(o, result, state); err != nil {
			return err
		}
	}
	return e.output.printFormatted(e.session, o, func() string { return e.formatOutcome(o) })
}

// selectVerdict leaves only the verdict on the cluster that was asked for, with all
// that there is to tell.
func (e *explainCommand) selectVerdict(o *placementOutcome, result scheduler.ScheduleResult, state *fleet.NamespaceState) error {
	c, found := state.Clusters.ClusterNamed(e.cluster)
	if !found {
		return exit.Next(fmt.Errorf("there is no cluster %q", e.cluster), "\"capstan get clusters\" lists those that exist.")
	}
	for _, v := range o.Clusters {
		if v.Name == e.cluster {
			v.addDetails(result, c)
			o.Clusters = []clusterVerdict{v}
			return nil
		}
	}
	return nil
}

// holdReasons says what keeps the decisions of a Placement as they are.
func holdReasons(p *clusterv1beta1.Placement) []string {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return []string{"The placement is being deleted: its decisions stay as they are until it is gone."}
	case p.Annotations[clusterv1beta1.AnnotationSchedulingDisable] == "true":
		return []string{fmt.Sprintf("Annotation %s is set: the decisions stay as they are.", clusterv1beta1.AnnotationSchedulingDisable)}
	default:
		return nil
	}
}

// staleDecisionReason says why the decision that is written may be another one.
func staleDecisionReason(p *clusterv1beta1.Placement, o *placementOutcome) string {
	seen := false
	for _, kind := range []string{clusterv1beta1.PlacementConditionSatisfied, clusterv1beta1.PlacementConditionMisconfigured} {
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		seen = seen || c != nil && c.ObservedGeneration >= p.Generation
	}
	switch {
	case len(holdReasons(p)) > 0:
		return "This is what would be chosen otherwise."
	case !seen:
		return "The hub's placement controller has not processed the latest change of the placement yet: \"capstan doctor\" shows whether it is running."
	case len(o.Unread) > 0:
		return "That may be because of what could not be read here."
	default:
		return "If this persists, check with \"capstan doctor\" that the hub's placement controller is running."
	}
}
