// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/cli/progress"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// unjoinWait is how long an unjoin waits for what was delivered to be removed.
const unjoinWait = time.Minute

// unjoinOptions are the flags of "unjoin".
type unjoinOptions struct {
	member member.KubeconfigFlags
	mode   dryrun.Mode
	force  bool
	wait   time.Duration
}

// NewUnjoinCommand returns the command "unjoin".
func NewUnjoinCommand(session *hub.Session) *cobra.Command {
	o := &unjoinOptions{}
	cmd := &cobra.Command{
		Use:   "unjoin NAME",
		Short: "Remove a Push cluster from the hub",
		Long: "Removes a Push cluster from the hub: first everything that works applied in the cluster, then the cluster itself. " +
			"With access to the cluster, what \"join\" created there is removed as well.\n\n" +
			"With --force, the hub does not wait for a cluster that it cannot reach: what was delivered stays there.",
		Example: `  # Remove a cluster, and what join created in it
  capstan unjoin member1 --cluster-kubeconfig member1.kubeconfig

  # Give up a cluster that is gone
  capstan unjoin member1 --force

  # Show what would be done
  capstan unjoin member1 --dry-run=client`,
		Args:              args.One("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNameCompletion(session),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.mode.ValidateMode(); err != nil {
				return err
			}
			u, err := newUnjoin(session, o, args[0])
			if err != nil {
				return err
			}
			return u.runUnjoin(cmd.Context())
		},
	}
	o.member.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.force, "force", false, "Give up what was delivered if the hub cannot reach the cluster; it stays there")
	cmd.Flags().DurationVar(&o.wait, "wait", unjoinWait, "How long to wait until what was delivered is removed")
	o.mode.AddBareFlag(cmd)
	complete.MemberContexts(cmd, &o.member)
	return cmd
}

// unjoinRun is one unjoin under way.
type unjoinRun struct {
	*unjoinOptions
	session *hub.Session
	name    string
	steps   *progress.StepPrinter
	hub     client.Client
	// there is the member, nil if the user gave none.
	there *member.Member

	// What the first step finds out; each may be nil or empty.
	cluster    *clusterv1.ManagedCluster
	connection *fleetv1alpha1.ClusterConnection
	push       member.PushInstallation
	remains    []metav1.PartialObjectMetadata
	// leftBehind are the works that the hub gave up.
	leftBehind []string
}

func newUnjoin(session *hub.Session, o *unjoinOptions, name string) (*unjoinRun, error) {
	u := &unjoinRun{unjoinOptions: o, session: session, name: name, steps: progress.NewStepPrinter(session.ErrOut)}
	c, err := session.ConnectHub()
	if err != nil {
		return nil, err
	}
	u.hub = c
	if o.member.Given() {
		u.there, err = o.member.ConnectMember(session.ErrOut)
	}
	return u, err
}

// runUnjoin is the story of an unjoin. What is not there any more is no error, if
// anything is.
func (u *unjoinRun) runUnjoin(ctx context.Context) error {
	if err := u.steps.RunStep("Checking the hub and the member", func() error { return u.checkUnjoin(ctx) }); err != nil {
		return err
	}
	if u.cluster == nil && u.connection == nil && len(u.remains) == 0 {
		return exit.Next(fmt.Errorf("there is no cluster %q", u.name), "\"capstan get clusters\" lists those that exist.")
	}
	if !u.mode.MakesChanges() {
		u.printDryRun()
		return nil
	}
	if u.cluster != nil {
		if err := u.steps.RunStep("Removing what was delivered to the cluster", func() error { return u.detach(ctx) }); err != nil {
			return err
		}
	}
	if err := u.steps.RunStep("Removing the cluster from the hub", func() error { return u.deleteHubObjects(ctx) }); err != nil {
		return err
	}
	if u.there != nil {
		if err := u.steps.RunStep("Removing what the hub had in the member", func() error { return u.cleanMember(ctx) }); err != nil {
			return err
		}
	}
	u.printResult()
	return nil
}

// checkUnjoin finds out what is there, and whether the right cluster is meant.
func (u *unjoinRun) checkUnjoin(ctx context.Context) error {
	known, err := readFleet(ctx, u.hub)
	if err != nil {
		return err
	}
	u.cluster, u.connection = known.clusters[u.name], known.connections[u.name]
	if u.cluster != nil && view.FromCluster(u.cluster, u.connection).Mode == view.Pull {
		return exit.Next(fmt.Errorf("cluster %q has an agent of its own (Pull)", u.name), "Remove it with \"capstan unregister %s\".", u.name)
	}
	if u.there == nil {
		return nil
	}
	identity, err := u.there.Identify(ctx)
	if err != nil {
		return err
	}
	if id := view.FromCluster(u.cluster, u.connection).KnownIdentity(); id != "" && id != identity.UID {
		return exit.Next(fmt.Errorf("the kubeconfig leads to the cluster %s, but %q is the cluster %s", identity.UID, u.name, id),
			"Give the kubeconfig or the context of %q.", u.name)
	}
	if u.push, err = member.PushOf(ctx, u.hub, u.name, ""); err != nil {
		return err
	}
	u.remains, err = u.push.ListRemains(ctx, u.there.Client)
	return u.there.ExplainError(err)
}

// deleteHubObjects removes from the hub what is left of the cluster there.
func (u *unjoinRun) deleteHubObjects(ctx context.Context) error {
	secret := secretOf(u.name)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: u.name}}
	var failed []error
	for _, object := range []client.Object{connection, secret} {
		if err := u.hub.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("delete the %T %q: %w", object, client.ObjectKeyFromObject(object), err))
		}
	}
	return errors.Join(failed...)
}

// cleanMember removes what the hub had in the member. What there is was looked for
// before the works were removed, so it is looked for again.
func (u *unjoinRun) cleanMember(ctx context.Context) error {
	remains, err := u.push.ListRemains(ctx, u.there.Client)
	if err == nil {
		err = member.RemoveRemains(ctx, u.there.Client, remains)
	}
	return exit.Next(u.there.ExplainError(err), "The cluster has left the hub. The same command continues with what is left in the member.")
}

// printResult says what has become of the cluster, and what is still there.
func (u *unjoinRun) printResult() {
	out := u.session.Out
	fmt.Fprintf(out, "cluster(%s) is unjoined successfully\n", u.name)
	if len(u.leftBehind) > 0 {
		fmt.Fprintf(out, "What these works delivered stays in the cluster: %s\n", enumerate(u.leftBehind))
	}
	if u.there == nil {
		fmt.Fprintf(out, "What join created in the cluster is still there. To remove it:\n  capstan unjoin %s --%s FILE\n", u.name, member.FlagKubeconfig)
	}
}
