// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accept has the commands accept and deny: it approves or denies the
// requests of clusters to join.
package accept

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/requests"
)

const (
	// defaultTimeout is how long --wait waits. An agent looks for its certificate
	// every few seconds; pulling its image may take minutes.
	defaultTimeout = 5 * time.Minute
	// lookEvery is how often a command that waits looks.
	lookEvery = time.Second
)

// acceptCommand is one call of "accept".
type acceptCommand struct {
	session *hub.Session
	// read sees what is there, write changes it, or not in a dry run.
	read, write client.Client
	mode        dryrun.Mode
	chosen      string
	wait        bool
	// yes answers what the user would be asked.
	yes     bool
	timeout time.Duration
}

// NewAcceptCommand returns the command "accept".
func NewAcceptCommand(session *hub.Session) *cobra.Command {
	a := &acceptCommand{session: session}
	cmd := &cobra.Command{
		Use:   "accept NAME...",
		Short: "Accept clusters that ask to join",
		Long: "Approves the pending certificate requests of the clusters' agents and accepts the clusters. A request is " +
			"approved only if it asks for the certificate of one agent of this cluster and nothing else, and if it is clear " +
			"which request is the right one; if several keys or agents ask for the same cluster, --request selects one. A cluster " +
			"that was denied is accepted again. A Push cluster whose agent asks to join becomes a Pull cluster if --request " +
			"selects its request; what was delivered to it stays.\n\n" +
			"Many clusters may share the token that they ask with, and whoever has it can ask in the name of each of them. What tells " +
			"them apart is the key. --dry-run=client shows its fingerprint beforehand; on the cluster, \"kubectl describe " +
			"klusterlet\" and the log of the agent show that of its agent. With --wait, accept shows the key of a request that comes " +
			"meanwhile and asks whether it is the right one.\n\n" +
			"A cluster chooses its labels when it asks to join, and with them its ManagedClusterSets. accept shows these labels and sets, " +
			"and who can then place workloads on the cluster, and asks whether that is right; --dry-run=client shows them beforehand. " +
			"Without a terminal there is nobody to ask, and it needs --yes.",
		Example: `  # Accept a cluster that has asked to join
  capstan accept member1

  # Accept it as soon as it asks, and wait until it is ready
  capstan accept member1 --wait

  # Show what would be done
  capstan accept member1 member2 --dry-run=client`,
		Args:              args.Some("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.acceptClusters(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&a.wait, "wait", false, "Wait for the request if there is none yet, and until the cluster is ready")
	cmd.Flags().DurationVar(&a.timeout, "timeout", defaultTimeout, "How long --wait waits for each cluster")
	cmd.Flags().BoolVar(&a.yes, "yes", false, "Accept the labels that clusters come with, and the keys that ask, without a question")
	cmd.Flags().StringVar(&a.chosen, "request", "", "Name of the certificate request to approve, if it is ambiguous; needs a single cluster")
	a.mode.AddFlag(cmd)
	return cmd
}

func (a *acceptCommand) acceptClusters(ctx context.Context, names []string) error {
	if err := a.mode.ValidateMode(); err != nil {
		return err
	}
	if a.chosen != "" && len(names) != 1 {
		return exit.UsageError("--request names the request of one cluster, and there are %d clusters", len(names))
	}
	c, err := a.session.ConnectHub()
	if err != nil {
		return err
	}
	a.read, a.write = c, a.mode.WrapClient(c)
	var failed []error
	for _, name := range names {
		err := a.session.ExplainError(a.acceptCluster(ctx, name))
		if exit.Code(err) == exit.NoHub || ctx.Err() != nil {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// acceptCluster accepts one cluster.
func (a *acceptCommand) acceptCluster(ctx context.Context, name string) error {
	// Only waiting ends with the timeout; a request under way then is not cut off.
	patience, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	p, err := a.awaitAcceptancePlan(ctx, patience, name)
	if err != nil {
		return err
	}
	for _, refused := range p.refused {
		fmt.Fprintf(a.session.ErrOut, "Warning: the request %s of %s is left alone: %s\n", requests.PrintableName(refused.Request), columns.OneLine(refused.Request.Spec.Username), columns.OneLine(refused.Why))
	}
	if len(p.approve) == 0 && !p.accept {
		fmt.Fprintf(a.session.Out, "cluster %q is already accepted, and no request is pending\n", name)
	}
	if p.accept {
		fmt.Fprintln(a.session.ErrOut, identifyCluster(p.cluster, a.session.Clock.Now()))
		if err := errors.Join(a.tellSets(ctx, p.cluster), a.warnOfTakingBack(ctx, name)); err != nil {
			return err
		}
		p.doubts = append(p.doubts, doubtsOfLabels(p.cluster)...)
	}
	if err := a.confirmDoubts(name, p.doubts); err != nil {
		return err
	}
	if err := a.approveAll(ctx, p.approve); err != nil {
		return err
	}
	if p.pull != nil {
		if err := a.changeToPull(ctx, p.pull); err != nil {
			return fmt.Errorf("make cluster %q a Pull cluster: %w", name, err)
		}
		a.printChange("clusterconnection.fleet.capstan.io/%s changed to Pull", name)
		fmt.Fprintf(a.session.ErrOut, "The account of the hub stays in the cluster, until \"capstan unregister %s\". To revoke its permissions now, in the cluster: kubectl delete clusterrolebinding,clusterrole -l %s=%s\n",
			name, fleetv1alpha1.LabelPushCluster, name)
	}
	if p.accept {
		if err := setAccepted(ctx, a.mode, a.write, p.cluster, true); err != nil {
			return fmt.Errorf("accept cluster %q: %w", name, err)
		}
		a.printChange("managedcluster.cluster.open-cluster-management.io/%s accepted", name)
	}
	if a.wait && a.mode.MakesChanges() {
		return a.awaitReady(ctx, patience, name, len(p.approve) == 0)
	}
	return nil
}

// confirmDoubts shows what the user has to look at, and asks whether it is right.
func (a *acceptCommand) confirmDoubts(cluster string, doubts []string) error {
	for _, doubt := range doubts {
		fmt.Fprintln(a.session.ErrOut, doubt)
	}
	if len(doubts) == 0 || a.yes || !a.mode.MakesChanges() {
		return nil
	}
	yes, asked := a.session.AskYesNo(fmt.Sprintf("Is this right for cluster %q?", cluster))
	switch {
	case !asked:
		return exit.Next(fmt.Errorf("nothing is approved or accepted for cluster %q: there is no terminal to ask whether this is right", cluster),
			"If it is, run the command again with --yes.")
	case !yes:
		return fmt.Errorf("nothing is approved or accepted for cluster %q, as you said", cluster)
	}
	return nil
}

// warnOfTakingBack shows, before the cluster is accepted, that its name is that of a
// namespace from which policies send: an accepted cluster's namespace is its own.
func (a *acceptCommand) warnOfTakingBack(ctx context.Context, cluster string) error {
	bindings := &workv1alpha2.ResourceBindingList{}
	switch err := a.read.List(ctx, bindings, client.InNamespace(cluster), client.Limit(1)); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil // whoever may not see them is warned by the hub, and one without policies has none
	case err != nil:
		return fmt.Errorf("find out whether policies send from namespace %q: %w", cluster, err)
	}
	if len(bindings.Items) > 0 {
		fmt.Fprintf(a.session.ErrOut, "Warning: policies send objects from the namespace %q of the hub. Once the cluster of this name is accepted, they are taken back from all clusters.\n", cluster)
	}
	return nil
}

func (a *acceptCommand) approveAll(ctx context.Context, all []requests.ReadyRequest) error {
	for _, ready := range all {
		fmt.Fprintf(a.session.ErrOut, "Approving %s\n", whoAsks(ready, a.session.Clock.Now()))
		if err := a.approveRequest(ctx, ready.Request); err != nil {
			return fmt.Errorf("approve the request %q: %w", ready.Request.Name, err)
		}
		a.printChange("certificatesigningrequest.certificates.k8s.io/%s approved", requests.PrintableName(ready.Request))
	}
	return nil
}

func (a *acceptCommand) printChange(format string, args ...any) {
	fmt.Fprintf(a.session.Out, format+a.mode.Suffix()+"\n", args...)
}

// awaitAcceptancePlan finds out what is to be done. With --wait it waits for the cluster and
// its request.
func (a *acceptCommand) awaitAcceptancePlan(ctx, patience context.Context, name string) (acceptancePlan, error) {
	told := false
	for {
		p, err := a.readAcceptancePlan(ctx, name)
		if !a.wait || !errors.Is(err, errNoRequest) {
			if told && a.chosen == "" && len(p.doubts) == 0 {
				p.doubts = p.doubtsOfUnknown(a.session.Clock.Now())
			}
			return p, err
		}
		if !told {
			told = true
			fmt.Fprintf(a.session.ErrOut, "Waiting for cluster %q to ask for a certificate ...\n", name)
		}
		if sleep(patience, lookEvery) != nil {
			return acceptancePlan{}, exit.WaitedTooShort(ctx, err)
		}
	}
}

// sleep waits for the duration, or until the context ends.
func sleep(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (a *acceptCommand) readAcceptancePlan(ctx context.Context, name string) (acceptancePlan, error) {
	f := acceptanceFacts{cluster: &clusterv1.ManagedCluster{}, chosen: a.chosen, now: a.session.Clock.Now()}
	err := a.read.Get(ctx, client.ObjectKey{Name: name}, f.cluster)
	if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
		return acceptancePlan{}, exit.Next(fmt.Errorf("there is no cluster %q: %w", name, errNoRequest),
			"\"capstan get clusters\" lists those that have asked to join. \"capstan accept %s --wait\" waits for this one.", name)
	}
	if err != nil {
		return acceptancePlan{}, err
	}
	all := &certificatesv1.CertificateSigningRequestList{}
	if err := a.read.List(ctx, all, client.MatchingLabels{clusterv1.LabelClusterName: name}); err != nil {
		return acceptancePlan{}, err
	}
	f.requests = requests.Sort(name, all.Items)
	connection := &fleetv1alpha1.ClusterConnection{}
	switch err := a.read.Get(ctx, client.ObjectKey{Name: name}, connection); {
	case err == nil:
		f.connection = connection
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return acceptancePlan{}, err
	}
	p, err := decideAcceptance(f)
	p.refused = f.requests.Refused
	return p, err
}

func (a *acceptCommand) approveRequest(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error {
	return setRequestCondition(ctx, a.mode, a.read, a.write, request, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "CapstanAccept",
		Message: "approved by an administrator with \"capstan accept\"",
	})
}

// setRequestCondition decides about a request that was judged. One that somebody else has changed
// meanwhile is read again; its content cannot change, but another one may be in its place.
func setRequestCondition(
	ctx context.Context, mode dryrun.Mode, read, write client.Client, judged *certificatesv1.CertificateSigningRequest,
	condition certificatesv1.CertificateSigningRequestCondition,
) error {
	if mode.Skips() {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		request := &certificatesv1.CertificateSigningRequest{}
		if err := read.Get(ctx, client.ObjectKeyFromObject(judged), request); err != nil {
			return err
		}
		if request.UID != judged.UID || !requests.IsPending(request) {
			return exit.Next(errors.New("it was approved, denied or replaced in the meantime"), "Run the command again.")
		}
		request.Status.Conditions = append(request.Status.Conditions, condition)
		return write.SubResource("approval").Update(ctx, request)
	})
}

// changeToPull takes the rights for a cluster from the push agent, and gives them
// to the agent that calls the hub.
func (a *acceptCommand) changeToPull(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) error {
	if a.mode.Skips() {
		return nil
	}
	return patchSeen(ctx, a.write, connection, map[string]any{"spec": map[string]any{"syncMode": fleetv1alpha1.SyncModePull}})
}

// awaitReady waits until the cluster is ready. An agent that asks while we wait is
// accepted, too, if the user knows its key: what was approved before it asked may be of another one, from
// when the cluster was here before.
func (a *acceptCommand) awaitReady(ctx, patience context.Context, name string, mayAsk bool) error {
	for {
		cluster := &clusterv1.ManagedCluster{}
		if err := a.read.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
			return fmt.Errorf("wait for cluster %q: %w", name, err)
		}
		state := health.ClusterReadiness(cluster)
		if state.Ready == metav1.ConditionTrue {
			fmt.Fprintf(a.session.Out, "cluster(%s) is joined successfully\n", name)
			return nil
		}
		if mayAsk {
			p, err := a.readAcceptancePlan(ctx, name)
			if err != nil && !errors.Is(err, errNoRequest) {
				return err
			}
			if err := a.confirmDoubts(name, p.doubtsOfUnknown(a.session.Clock.Now())); err != nil {
				return err
			}
			if err := a.approveAll(ctx, p.approve); err != nil {
				return err
			}
			mayAsk = len(p.approve) == 0
		}
		if sleep(patience, lookEvery) != nil {
			err := fmt.Errorf("cluster %q is accepted, but not ready: %s: %s", name, state.Reason, state.Message)
			return exit.WaitedTooShort(ctx, exit.Next(err, "\"capstan describe cluster %s\" shows details; so does \"kubectl describe klusterlet\" on the cluster.", name))
		}
	}
}
