// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/requests"
)

// denyCommand is one call of "deny".
type denyCommand struct {
	session     *hub.Session
	read, write client.Client
	mode        dryrun.Mode
	// revoke says that accepted clusters are to lose their rights.
	revoke bool
}

// NewDenyCommand returns the command "deny".
func NewDenyCommand(session *hub.Session) *cobra.Command {
	d := &denyCommand{session: session}
	cmd := &cobra.Command{
		Use:   "deny NAME...",
		Short: "Deny clusters, or revoke their acceptance",
		Long: "Denies the pending certificate requests of the clusters. With --revoke, it also revokes the acceptance of those that " +
			"are accepted, and the hub then revokes the permissions of their agents. What was delivered to a cluster stays there, " +
			"and so do the objects in its namespace on the hub; \"capstan accept\" accepts it again.\n\n" +
			"Without --revoke, it leaves an accepted cluster alone, requests included: whoever has a bootstrap token can make " +
			"requests in its name. \"kubectl certificate deny\" denies such a request and nothing else.",
		Example: `  # Deny a cluster that has asked to join
  capstan deny member1

  # Take the permissions of one that is accepted, too
  capstan deny member1 --revoke

  # Let the hub check whether it would work
  capstan deny member1 --dry-run=server`,
		Args:              args.Some("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.denyClusters(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&d.revoke, "revoke", false, "Revoke the acceptance of clusters that are accepted")
	d.mode.AddFlag(cmd)
	return cmd
}

func (d *denyCommand) denyClusters(ctx context.Context, names []string) error {
	if err := d.mode.ValidateMode(); err != nil {
		return err
	}
	c, err := d.session.ConnectHub()
	if err != nil {
		return err
	}
	d.read, d.write = c, d.mode.WrapClient(c)
	var failed []error
	for _, name := range names {
		err := d.session.ExplainError(d.denyCluster(ctx, name))
		if exit.Code(err) == exit.NoHub || ctx.Err() != nil {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// denyCluster denies one cluster. Its acceptance goes first: that takes away rights.
func (d *denyCommand) denyCluster(ctx context.Context, name string) error {
	cluster := &clusterv1.ManagedCluster{}
	err := d.read.Get(ctx, client.ObjectKey{Name: name}, cluster)
	missing := apierrors.IsNotFound(err) && hub.IsKindServed(err)
	if err != nil && !missing {
		return err
	}
	all := &certificatesv1.CertificateSigningRequestList{}
	if err := d.read.List(ctx, all, client.MatchingLabels{clusterv1.LabelClusterName: name}); err != nil {
		return err
	}
	waiting := slices.DeleteFunc(all.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return !requests.IsPending(&r) || !requests.IsAgentRequest(&r)
	})
	if cluster.Spec.HubAcceptsClient && !d.revoke {
		return revokeNeededError(name, waiting)
	}
	done := 0
	if cluster.Spec.HubAcceptsClient {
		if err := setAccepted(ctx, d.mode, d.write, cluster, false); err != nil {
			return fmt.Errorf("deny cluster %q: %w", name, err)
		}
		fmt.Fprintf(d.session.Out, "managedcluster.cluster.open-cluster-management.io/%s denied%s\n", name, d.mode.Suffix())
		done++
	}
	for i := range waiting {
		request := &waiting[i]
		if err := d.denyRequest(ctx, request); err != nil {
			return fmt.Errorf("deny the request %q: %w", request.Name, err)
		}
		fmt.Fprintf(d.session.Out, "certificatesigningrequest.certificates.k8s.io/%s denied%s\n", requests.PrintableName(request), d.mode.Suffix())
		done++
	}
	switch {
	case done > 0:
		return nil
	case missing:
		return exit.Next(fmt.Errorf("there is no cluster %q, and nothing asks to join under this name", name), "\"capstan get clusters\" lists those that exist.")
	}
	fmt.Fprintf(d.session.Out, "cluster %q is not accepted, and no request is pending\n", name)
	return nil
}

// revokeNeededError is for an accepted cluster that nobody has said should lose its rights.
func revokeNeededError(cluster string, waiting []certificatesv1.CertificateSigningRequest) error {
	next := fmt.Sprintf("To revoke it: \"capstan deny %s --revoke\".", cluster)
	if len(waiting) > 0 {
		var names []string
		for i := range waiting {
			names = append(names, requests.PrintableName(&waiting[i]))
		}
		next += fmt.Sprintf(" To deny only the pending request: \"kubectl certificate deny %s\".", strings.Join(names, " "))
	}
	return exit.Next(fmt.Errorf("cluster %q is accepted: to deny it would take the permissions of its agents on the hub, and nothing more would be delivered to it",
		cluster), "%s", next)
}

func (d *denyCommand) denyRequest(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error {
	return setRequestCondition(ctx, d.mode, d.read, d.write, request, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "CapstanDeny",
		Message: "denied by an administrator with \"capstan deny\"",
	})
}
