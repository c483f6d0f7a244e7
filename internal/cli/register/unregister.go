// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/cluster/view"
	klusterlet "github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// unregisterCommand is one call of "unregister".
type unregisterCommand struct {
	session *hub.Session
	mode    dryrun.Mode
	flags   member.KubeconfigFlags
	wait    time.Duration
	force   bool

	hub    client.WithWatch
	member *member.Member
	client client.Client
	// agent is the Klusterlet of the cluster in the member, if there is one.
	agent *operatorv1.Klusterlet
}

// NewUnregisterCommand returns the command "unregister".
func NewUnregisterCommand(session *hub.Session) *cobra.Command {
	l := &unregisterCommand{session: session}
	cmd := &cobra.Command{
		Use:   "unregister NAME",
		Short: "Remove a Pull cluster from the hub",
		Long: "Undoes \"capstan register\" on both sides: the hub removes the cluster once its agent has removed what works " +
			"delivered there; then the agent is removed from the member, and the operator, if \"register\" installed it and " +
			"nothing else needs it. The kubeconfig in use is that of the hub; --cluster-kubeconfig or --cluster-context " +
			"select the member. Without them, the agent stays there, without a hub.\n\n" +
			"With --force, the hub gives the cluster up as soon as its heartbeats stop, a little more than a minute after the " +
			"last one, so what works delivered to the member may stay there until its agent is removed. After an " +
			"interruption, run the same command again to continue.",
		Example: `  # The cluster of another kubeconfig
  capstan unregister member1 --cluster-kubeconfig ~/.kube/member1

  # Another context of the same kubeconfig
  capstan unregister member1 --cluster-context member1

  # A cluster that is gone for good
  capstan unregister member1 --force`,
		Args:              args.One("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return l.runUnregister(cmd.Context(), args[0]) },
	}
	l.flags.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&l.wait, "wait", defaultTimeout, "How long each step may take")
	cmd.Flags().BoolVar(&l.force, "force", false, "Do not wait for an agent that does not respond")
	l.mode.AddFlag(cmd)
	return cmd
}

func (l *unregisterCommand) runUnregister(ctx context.Context, name string) error {
	if err := l.mode.ValidateMode(); err != nil {
		return err
	}
	var err error
	if l.hub, err = l.session.ConnectHub(); err != nil {
		return err
	}
	cluster, err := l.findCluster(ctx, name)
	if err != nil {
		return err
	}
	if l.flags.Given() {
		if err := l.findMember(ctx, name, cluster); err != nil {
			return err
		}
	}
	if cluster == nil && l.agent == nil && !l.flags.Given() {
		return exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists those that exist.")
	}
	if cluster != nil {
		if err := l.leaveHub(ctx, cluster); err != nil {
			return err
		}
	}
	if l.member != nil {
		if err := l.member.ExplainError(l.cleanMember(ctx, name)); err != nil {
			return err
		}
	}
	fmt.Fprintf(l.session.Out, "cluster(%s) is unregistered successfully%s\n", name, l.mode.Suffix())
	if l.member == nil {
		fmt.Fprintf(l.session.ErrOut, "Its agent stays in the member. To remove it, too: capstan unregister %s %s\n", name, l.flags.DescribeFlags())
	}
	return nil
}

// findCluster returns what the hub knows of the cluster, nil if it knows nothing.
func (l *unregisterCommand) findCluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	cluster := &clusterv1.ManagedCluster{}
	err := l.hub.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	err = l.hub.Get(ctx, client.ObjectKey{Name: name}, connection)
	switch {
	case err == nil && connection.Spec.SyncMode == fleetv1alpha1.SyncModePush:
		return nil, exit.Next(fmt.Errorf("cluster %q has no agent of its own: the hub dials it (Push)", name), "Remove it with \"capstan unjoin %s\".", name)
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return nil, err
	}
	return cluster, nil
}

// findMember connects with the member and makes sure that it is the right one.
func (l *unregisterCommand) findMember(ctx context.Context, name string, cluster *clusterv1.ManagedCluster) error {
	var err error
	if l.member, err = l.flags.ConnectMember(l.session.ErrOut); err != nil {
		return err
	}
	who, err := l.member.Identify(ctx)
	if err != nil {
		return err
	}
	if known := view.FromCluster(cluster, nil).Claimed; known != "" && known != who.UID {
		return exit.Next(fmt.Errorf("%s is not the cluster that the hub knows as %q", l.member.DescribeTarget(), name),
			"Choose the right member with --cluster-kubeconfig and --cluster-context.")
	}
	if l.client, err = install.NewClient(l.member.Config); err != nil {
		return err
	}
	list := &operatorv1.KlusterletList{}
	if err := l.client.List(ctx, list); apierrors.IsNotFound(err) {
		return nil // the kind is not there either
	} else if err != nil {
		return l.member.ExplainError(fmt.Errorf("list Klusterlets: %w", err))
	}
	var others []error
	for i := range list.Items {
		k := &list.Items[i]
		switch {
		case klusterlet.IsHostedMode(k):
		case k.Spec.ClusterName == name:
			l.agent = k
		default:
			others = append(others, fmt.Errorf("%s is cluster %q of its hub, not %q", l.member.DescribeTarget(), k.Spec.ClusterName, name))
		}
	}
	if l.agent == nil && len(others) > 0 {
		return exit.Next(errors.Join(others...), "Choose the right member with --cluster-kubeconfig and --cluster-context.")
	}
	return nil
}

// leaveHub lets the hub forget the cluster. The hub waits meanwhile until the
// agent has removed what works have delivered.
func (l *unregisterCommand) leaveHub(ctx context.Context, cluster *clusterv1.ManagedCluster) error {
	name := cluster.Name
	if !l.mode.Skips() {
		if err := l.deleteFromHub(ctx, cluster); err != nil {
			return err
		}
	}
	l.printChange("managedcluster.cluster.open-cluster-management.io/%s deleted", name)
	if !l.mode.MakesChanges() {
		return nil
	}
	next := "Nothing has to be undone: the same command continues from there."
	if !l.force {
		next += fmt.Sprintf(" If the member does not come back: capstan unregister %s --force", name)
	}
	return l.newWaiter(l.hub).PollUntil(ctx, fmt.Sprintf("the hub to forget cluster %q", name), next, func(ctx context.Context) (bool, string, error) {
		err := l.hub.Get(ctx, client.ObjectKey{Name: name}, cluster)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		if deleting := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionDeleting); deleting != nil {
			return false, deleting.Message, nil
		}
		return false, "the hub has not started on it yet", nil
	})
}

// deleteFromHub deletes a cluster on the hub.
func (l *unregisterCommand) deleteFromHub(ctx context.Context, cluster *clusterv1.ManagedCluster) error {
	write := l.mode.WrapClient(l.hub)
	if err := write.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete cluster %q on the hub: %w", cluster.Name, err)
	}
	if !l.force {
		return nil
	}
	return hub.GiveUp(ctx, write, cluster.Name, 0)
}

// cleanMember removes from the member what "register" installed there, and what
// the hub had there if the cluster was a Push cluster before.
func (l *unregisterCommand) cleanMember(ctx context.Context, name string) error {
	operator := install.KlusterletOperator()
	w := l.newWaiter(l.client)
	namespace := operatorv1.DefaultAgentNamespace
	if l.agent != nil {
		namespace = klusterlet.AgentNamespace(l.agent)
		l.agent.SetGroupVersionKind(operator.InstanceKind())
		if l.mode.MakesChanges() {
			if err := install.DeleteObject(ctx, l.client, l.agent); err != nil {
				return err
			}
			if err := w.AwaitGone(ctx, l.agent); err != nil {
				return err
			}
		}
		l.printChange("klusterlet.operator.open-cluster-management.io/%s deleted", l.agent.Name)
	}
	if err := l.removeOperator(ctx, operator, w); err != nil || !l.mode.MakesChanges() {
		return err
	}
	if err := l.removeNamespace(ctx, namespace, w); err != nil {
		return err
	}
	if err := l.removePush(ctx, name); err != nil {
		return err
	}
	return l.nameLeftovers(ctx)
}

// removePush removes the account that the hub had in the member, with all of its
// rights.
func (l *unregisterCommand) removePush(ctx context.Context, name string) error {
	push, err := member.PushOf(ctx, l.hub, name, "")
	if err != nil {
		return err
	}
	remains, err := push.ListRemains(ctx, l.member.Client)
	if err != nil || len(remains) == 0 {
		return err
	}
	if err := member.RemoveRemains(ctx, l.member.Client, remains); err != nil {
		return err
	}
	l.printChange("account of the hub deleted")
	return nil
}

// nameLeftovers tells which definitions stay: others may have objects of these
// kinds, which would go with them.
func (l *unregisterCommand) nameLeftovers(ctx context.Context) error {
	definitions, err := config.SpokeCRDs()
	if err != nil {
		return err
	}
	var left []string
	for _, definition := range definitions {
		err := l.client.Get(ctx, client.ObjectKeyFromObject(definition), &apiextensionsv1.CustomResourceDefinition{})
		if err == nil {
			left = append(left, definition.Name)
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the definition %q: %w", definition.Name, err)
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(l.session.ErrOut, "These definitions stay in the member: %s\n", strings.Join(left, ", "))
	}
	return nil
}

// removeOperator removes the operator if "register" installed it and no
// Klusterlet needs it any more.
func (l *unregisterCommand) removeOperator(ctx context.Context, operator install.Operator, w install.Waiter) error {
	installed, err := operator.Installed(ctx, l.client)
	if err != nil || installed == nil {
		return err
	}
	instances, err := operator.Instances(ctx, l.client)
	switch {
	case err != nil:
		return err
	case install.OptionsOf(installed).InstalledBy != install.ByRegister:
		fmt.Fprintf(l.session.ErrOut, "The operator %q stays, as \"capstan register\" has not installed it.\n", operator.DeploymentKey())
		return nil
	case len(instances) > 0 && l.mode.MakesChanges():
		fmt.Fprintf(l.session.ErrOut, "The operator %q stays, as it is needed for Klusterlet %v.\n", operator.DeploymentKey(), instances)
		return nil
	}
	if l.mode.MakesChanges() {
		if err := operator.RemoveOperator(ctx, l.client, w); err != nil {
			return err
		}
	}
	l.printChange("operator %s deleted", operator.DeploymentKey())
	return nil
}

// removeNamespace removes the namespace of the agent, if an installation that
// was interrupted made it and no operator came to take care of it.
func (l *unregisterCommand) removeNamespace(ctx context.Context, name string, w install.Waiter) error {
	namespace := &corev1.Namespace{}
	err := l.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the namespace %q: %w", name, err)
	}
	if namespace.Labels[operatorv1.LabelPartOf] != operatorv1.PartOfCapstan {
		fmt.Fprintf(l.session.ErrOut, "The namespace %q stays, as it was there before.\n", name)
		return nil
	}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := install.DeleteObject(ctx, l.client, namespace); err != nil {
		return err
	}
	if err := w.AwaitGone(ctx, namespace); err != nil {
		return err
	}
	l.printChange("namespace/%s deleted", name)
	return nil
}

func (l *unregisterCommand) printChange(format string, args ...any) {
	fmt.Fprintf(l.session.Out, format+l.mode.Suffix()+"\n", args...)
}

func (l *unregisterCommand) newWaiter(c client.Client) install.Waiter {
	return install.Waiter{Client: c, Timeout: l.wait, Note: func(text string) { fmt.Fprintf(l.session.ErrOut, " • %s\n", columns.OneLine(text)) }}
}
