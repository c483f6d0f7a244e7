// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout is the command that looks at the rollouts of policies and
// objects, and pauses, resumes and undoes them.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/output"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// rolloutCommand is one call of a command.
type rolloutCommand struct {
	session   *hub.Session
	namespace string
	wide      bool // it is a ClusterPropagationRollout
	format    output.Format
}

// rolloutObject is a rollout that clients know.
type rolloutObject interface {
	fleetv1alpha1.Rollout
	client.Object
}

// NewRolloutCommand returns the command "rollout".
func NewRolloutCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout COMMAND",
		Short: "Look at staged rollouts of policies and objects, pause, resume and undo them",
		Long: "A PropagationRollout has changes of what a policy sends, or of one object, reach the clusters group by group. These commands say how " +
			"far one is, and change it. \"kubectl get propagationrollouts -A\" lists all.",
		Example: `  # How far is it, and why does it not go on?
  capstan rollout status web -n shop

  # Go back to what all clusters had last
  capstan rollout undo web -n shop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStatus(session), newPause(session), newResume(session), newUndo(session))
	return cmd
}

func newStatus(session *hub.Session) *cobra.Command {
	c := &rolloutCommand{session: session}
	return c.completeCommand(&cobra.Command{
		Use:   "status NAME [-n NAMESPACE]",
		Short: "Say how far a rollout is, and why it does not go on",
		Long: "Says whose turn it is, how many clusters have the latest change and how they are with it, and what to do if the rollout has stopped. " +
			"It changes nothing.",
		Example: `  capstan rollout status web -n shop

  # Of a ClusterPropagationRollout, for a script
  capstan rollout status platform --cluster-scoped -o json`,
	}, nil)
}

func newPause(session *hub.Session) *cobra.Command {
	c := &rolloutCommand{session: session}
	return c.completeCommand(&cobra.Command{
		Use:     "pause NAME [-n NAMESPACE]",
		Short:   "Keep changes from clusters that do not have them yet",
		Long:    "Sets spec.paused of a rollout. Clusters that have a change keep it, and scaling goes on.",
		Example: `  capstan rollout pause web -n shop`,
	}, func(r rolloutObject) (string, error) {
		if r.RolloutSpec().Paused {
			return "already paused", nil
		}
		r.RolloutSpec().Paused = true
		return "paused", nil
	})
}

func newResume(session *hub.Session) *cobra.Command {
	c := &rolloutCommand{session: session}
	return c.completeCommand(&cobra.Command{
		Use:     "resume NAME [-n NAMESPACE]",
		Short:   "Let a rollout go on that is paused or undone",
		Long:    "Takes spec.paused and spec.undo of a rollout back: the latest change goes to the clusters that do not have it, group by group.",
		Example: `  capstan rollout resume web -n shop`,
	}, func(r rolloutObject) (string, error) {
		spec := r.RolloutSpec()
		if !spec.Paused && spec.Undo == nil {
			return "neither paused nor undone", nil
		}
		spec.Paused = false
		spec.Undo = nil
		return "resumed", nil
	})
}

func newUndo(session *hub.Session) *cobra.Command {
	c := &rolloutCommand{session: session}
	return c.completeCommand(&cobra.Command{
		Use:   "undo NAME [-n NAMESPACE]",
		Short: "Take a change back that has not reached all clusters",
		Long: "Sets spec.undo of a rollout: clusters that have the latest change get at once what all clusters had last. The objects and policies on " +
			"the hub stay as they are; when they change, a new rollout begins. What all clusters have is not undone: change it. If clusters had nothing " +
			"before, as with the first revision of an object or in clusters that are chosen newly, nothing is taken back: no other cluster gets it.",
		Example: `  capstan rollout undo web -n shop`,
	}, undo)
}

func undo(r rolloutObject) (string, error) {
	spec := r.RolloutSpec()
	status := r.RolloutStatus()
	switch {
	case status.Revision == 0:
		return "", exit.Next(errors.New("nothing has been rolled out yet"), "\"capstan rollout status %s\" says why.", r.GetName())
	case spec.Undo != nil && *spec.Undo >= status.Revision:
		return "spec.undo says so already", nil
	case isConditionTrue(status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete):
		return "", exit.Next(errors.New("all clusters have the latest change: there is nothing to undo"), "Change the object or the policy instead; that is rolled out in turn.")
	}
	spec.Undo = new(status.Revision)
	return fmt.Sprintf("revision %d is taken back where clusters had something before", status.Revision), nil
}

// completeCommand completes a command that changes a rollout, or only says how it is if
// change is nil.
func (c *rolloutCommand) completeCommand(cmd *cobra.Command, change func(rolloutObject) (string, error)) *cobra.Command {
	cmd.Args = args.One("the name of the rollout")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.runRollout(cmd.Context(), args[0], change) }
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "Namespace of the rollout (default: that of the kubeconfig's context)")
	cmd.Flags().BoolVar(&c.wide, "cluster-scoped", false, "It is a ClusterPropagationRollout")
	c.format.AddFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(c.session))
	return cmd
}

func (c *rolloutCommand) runRollout(ctx context.Context, name string, change func(rolloutObject) (string, error)) error {
	if err := c.format.CheckFormat(); err != nil {
		return err
	}
	if c.wide && c.namespace != "" {
		return exit.UsageError("--cluster-scoped and --namespace exclude each other")
	}
	kinds, err := c.session.ConnectAny()
	if err != nil {
		return err
	}
	to := kinds.Client
	r := rolloutObject(&fleetv1alpha1.PropagationRollout{})
	key := client.ObjectKey{Namespace: c.namespace, Name: name}
	switch {
	case c.wide:
		r = &fleetv1alpha1.ClusterPropagationRollout{}
	case key.Namespace == "":
		key.Namespace = cmp.Or(c.session.ContextNamespace(), metav1.NamespaceDefault)
	}
	if err := to.Get(ctx, key, r); err != nil {
		return c.explainAbsent(err, key)
	}
	report := &StatusReport{Namespace: key.Namespace, Name: name}
	if change != nil {
		before := deepcopy.CopyObject(r)
		if report.Change, err = change(r); err != nil {
			return err
		}
		if err := to.Patch(ctx, r, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("changing the rollout %q: %w", name, err)
		}
	}
	report.fillStatus(r)
	return c.format.Print(c.session.Out, report, report.formatReport)
}

// explainAbsent explains that a rollout cannot be read.
func (c *rolloutCommand) explainAbsent(err error, key client.ObjectKey) error {
	switch {
	case !apierrors.IsNotFound(err) || !hub.IsKindServed(err):
		return err
	case c.wide:
		return exit.Next(fmt.Errorf("there is no ClusterPropagationRollout %q", key.Name), "\"kubectl get clusterpropagationrollouts\" lists those that there are.")
	default:
		return exit.Next(fmt.Errorf("there is no PropagationRollout %q in namespace %q", key.Name, key.Namespace), "\"kubectl get propagationrollouts -A\" lists those that there are.")
	}
}
