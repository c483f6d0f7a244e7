// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/progress"
)

// defaultTimeout is more than the minute within which the operator notices.
const defaultTimeout = 3 * time.Minute

func newRenew(session *hub.Session) *cobra.Command {
	p := &planeFlags{session: session}
	timeout := defaultTimeout
	cmd := &cobra.Command{
		Use:   "renew [CERTIFICATE...]",
		Short: "Renew certificates now",
		Long: "Renews certificates of a dedicated hub now, all of them or those that are named, and waits until that is done. " +
			"Clients do not notice. Authorities are not renewed (see \"capstan certs rotate\"), and certificates that they " +
			"have already signed stay valid; the credential for an external etcd is renewed by whoever runs that etcd.",
		Example: `  # Renew all certificates of the hub fleet
  capstan certs renew --name fleet

  # Renew the one of its API server
  capstan certs renew --name fleet fleet-apiserver`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, names []string) error {
			c, cp, err := p.findControlPlane(cmd.Context())
			if err != nil {
				return err
			}
			if !cp.DeletionTimestamp.IsZero() {
				return fmt.Errorf("the dedicated hub %q is being removed", p.name)
			}
			secrets, err := renewable(cmd.Context(), c, cp, names)
			if err != nil {
				return err
			}
			steps := progress.NewStepPrinter(session.ErrOut)
			waiter := install.Waiter{Client: c, Timeout: timeout, Note: func(text string) { steps.ShowWaiting("%s", text) }}
			err = steps.RunStep(fmt.Sprintf("Renewing certificates, %d in all", len(secrets)), func() error { return renewSecrets(cmd.Context(), waiter, secrets) })
			if err != nil {
				return err
			}
			fmt.Fprintf(session.Out, "\nThe credential in a context of your kubeconfig is a copy, which \"capstan init --dedicated --name %s\" renews.\n", p.name)
			return nil
		},
	}
	p.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "How long to wait for each certificate")
	return cmd
}

// renewable returns the Secrets of the certificates of these names, or of all
// that the operator renews.
func renewable(ctx context.Context, c client.Reader, cp *fleetv1alpha1.ControlPlane, names []string) ([]corev1.Secret, error) {
	ours := &corev1.SecretList{}
	if err := c.List(ctx, ours, client.InNamespace(cp.Namespace), client.MatchingLabels{fleetv1alpha1.LabelControlPlane: cp.Name}); err != nil {
		return nil, fmt.Errorf("list the certificates in namespace %q: %w", cp.Namespace, err)
	}
	var known []string
	for _, certificate := range cp.Status.Certificates {
		if !certificate.Authority {
			known = append(known, certificate.Name)
		}
	}
	secrets := slices.DeleteFunc(ours.Items, func(s corev1.Secret) bool {
		return !slices.Contains(known, s.Name) || len(names) > 0 && !slices.Contains(names, s.Name)
	})
	for _, name := range names {
		if !slices.ContainsFunc(secrets, func(s corev1.Secret) bool { return s.Name == name }) {
			return nil, exit.UsageError("there is no certificate %q that could be renewed; \"capstan certs expiry --name %s\" lists them, and authorities are not renewed", name, cp.Name)
		}
	}
	if len(secrets) == 0 {
		return nil, exit.Next(fmt.Errorf("the dedicated hub %q has no certificates yet", cp.Name), "Wait until it is installed.")
	}
	slices.SortFunc(secrets, func(a, b corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	return secrets, nil
}

// renewSecrets deletes the Secrets, which pods go on using until there are others, and
// waits until the operator has made those.
func renewSecrets(ctx context.Context, w install.Waiter, secrets []corev1.Secret) error {
	for i := range secrets {
		err := w.Client.Delete(ctx, &secrets[i], client.Preconditions{UID: &secrets[i].UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete the Secret %q, for the operator to make another one: %w", client.ObjectKeyFromObject(&secrets[i]), err)
		}
	}
	for i := range secrets {
		key := client.ObjectKeyFromObject(&secrets[i])
		err := w.PollUntil(ctx, fmt.Sprintf("the new certificate in Secret %q", key), "Check the operator: \"kubectl -n open-cluster-management logs deployment/control-plane\".",
			func(ctx context.Context) (done bool, why string, err error) {
				return isSecretRenewed(ctx, w.Client, key, secrets[i].UID)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

func isSecretRenewed(ctx context.Context, c client.Reader, key client.ObjectKey, old types.UID) (done bool, why string, err error) {
	now := &corev1.Secret{}
	if err := c.Get(ctx, key, now); client.IgnoreNotFound(err) != nil {
		return false, "", fmt.Errorf("read the Secret %q: %w", key, err)
	}
	return now.UID != "" && now.UID != old && len(now.Data[corev1.TLSCertKey]) > 0, "the operator looks every minute", nil
}
