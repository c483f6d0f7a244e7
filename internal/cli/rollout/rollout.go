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
		Short: "Show, pause, resume and undo staged rollouts of policies and objects",
		Long: "A PropagationRollout rolls out changes of what a policy sends, or of one object, to the clusters group by " +
			"group. These commands show its progress and change it. \"kubectl get propagationrollouts -A\" lists all rollouts.",
		Example: `  # How far is it, and why has it stopped?
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
		Short: "Show the progress of a rollout, and why it has stopped",
		Long: "Shows which group is next, how many clusters are updated, and their health, and what to do if the rollout has " +
			"stopped. It changes nothing.",
		Example: `  capstan rollout status web -n shop

  # Of a ClusterPropagationRollout, for a script
  capstan rollout status platform --cluster-scoped -o json`,
	}, nil)
}

func newPause(session *hub.Session) *cobra.Command {
	c := &rolloutCommand{session: session}
	return c.completeCommand(&cobra.Command{
		Use:     "pause NAME [-n NAMESPACE]",
		Short:   "Pause a rollout",
		Long:    "Sets spec.paused of a rollout: clusters that do not have a change yet do not get it. Clusters that have it keep it, and scaling continues.",
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
		Short:   "Resume a rollout that is paused or undone",
		Long:    "Clears spec.paused and spec.undo of a rollout: the latest change is rolled out, group by group, to the clusters that do not have it.",
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
		Short: "Undo a change that has not reached all clusters",
		Long: "Sets spec.undo of a rollout: clusters with the latest change immediately get back what all clusters had last. " +
			"The objects and policies on the hub are not changed; when they change, a new rollout begins. What all clusters " +
			"have is not undone: change the object or policy instead. If clusters had nothing before, as with the first " +
			"revision of an object or in newly chosen clusters, nothing is removed: no other cluster gets it.",
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
		return "it is already being undone", nil
	case isConditionTrue(status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete):
		return "", exit.Next(errors.New("all clusters have the latest change: there is nothing to undo"), "Change the object or the policy instead; that is rolled out in turn.")
	}
	spec.Undo = new(status.Revision)
	return fmt.Sprintf("revision %d is undone where clusters had something before", status.Revision), nil
}

// completeCommand completes a command that changes a rollout, or only says how it is if
// change is nil.
func (c *rolloutCommand) completeCommand(cmd *cobra.Command, change func(rolloutObject) (string, error)) *cobra.Command {
	cmd.Args = args.One("the name of the rollout")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.runRollout(cmd.Context(), args[0], change) }
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "Namespace of the rollout (default: that of the kubeconfig's context)")
	cmd.Flags().BoolVar(&c.wide, "cluster-scoped", false, "The rollout is a ClusterPropagationRollout")
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
		return exit.Next(fmt.Errorf("there is no ClusterPropagationRollout %q", key.Name), "\"kubectl get clusterpropagationrollouts\" lists those that exist.")
	default:
		return exit.Next(fmt.Errorf("there is no PropagationRollout %q in namespace %q", key.Name, key.Namespace), "\"kubectl get propagationrollouts -A\" lists those that exist.")
	}
}
