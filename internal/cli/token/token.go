// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package token creates, lists and deletes the bootstrap tokens with which
// clusters join.
package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/clusterinfo"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
)

// NewTokenCommand returns the command "token".
func NewTokenCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and delete the tokens with which clusters ask to join",
	}
	cmd.AddCommand(newCreate(session), newList(session), newDelete(session))
	return cmd
}

func newList(session *hub.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List bootstrap tokens",
		Long: "Lists the bootstrap tokens of the hub, including their secret parts: anyone who may read them may use them. They " +
			"are Secrets in namespace kube-system, and some may be for purposes other than joining. CLUSTERS shows which " +
			"clusters may join with a token, ACCEPTANCE whether the hub accepts them automatically.",
		Example:           `  capstan token list`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.ConnectHub()
			if err != nil {
				return err
			}
			secrets, err := listTokenSecrets(cmd.Context(), c)
			if err != nil {
				return err
			}
			if len(secrets) == 0 {
				fmt.Fprintln(session.ErrOut, "No tokens found.")
				return nil
			}
			if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(tokenTable(secrets, session.Clock.Now()), session.Out); err != nil {
				return fmt.Errorf("print tokens: %w", err)
			}
			return nil
		},
	}
}

// listTokenSecrets returns the Secrets of bootstrap tokens in the order of their names.
func listTokenSecrets(ctx context.Context, c client.Client) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	err := c.List(ctx, list, client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"type": string(api.SecretTypeBootstrapToken)})
	if err != nil {
		return nil, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// tokenTable is the table of the tokens.
func tokenTable(secrets []corev1.Secret, now time.Time) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range []string{"Token", "TTL", "Expires", "Usages", "Description", "Extra-Groups", "Clusters", "Acceptance"} {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for i := range secrets {
		data := func(key string) string { return string(secrets[i].Data[key]) }
		ttl, expires := validity(data(api.BootstrapTokenExpirationKey), now)
		var usages []string
		for _, usage := range slices.Sorted(slices.Values(api.KnownTokenUsages)) {
			if data(api.BootstrapTokenUsagePrefix+usage) == "true" {
				usages = append(usages, usage)
			}
		}
		clusters, acceptance := tokenBounds(data(api.BootstrapTokenIDKey), data(api.BootstrapTokenExtraGroupsKey))
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{
			util.TokenFromIDAndSecret(data(api.BootstrapTokenIDKey), data(api.BootstrapTokenSecretKey)), ttl, expires,
			orNone(strings.Join(usages, ",")), orNone(data(api.BootstrapTokenDescriptionKey)), orNone(data(api.BootstrapTokenExtraGroupsKey)),
			clusters, acceptance,
		}})
	}
	return t
}

// tokenBounds says which clusters may ask to join with a token, and who lets them in.
func tokenBounds(id, groups string) (clusters, acceptance string) {
	all := strings.Split(groups, ",")
	bounds := boundtoken.BoundsOf(api.BootstrapUserPrefix+id, all)
	switch {
	case !slices.Contains(all, clusterv1.GroupBootstrappers):
		return "<none>", "<none>"
	case bounds.AutoAccept():
		acceptance = "automatic"
	default:
		acceptance = "manual"
	}
	if !bounds.IsBound() {
		return "<any>", acceptance
	}
	return orNone(strings.Join(bounds.ClusterPatterns(), ",")), acceptance
}

// validity says how long a token is valid, and until when.
func validity(expiration string, now time.Time) (ttl, expires string) {
	if expiration == "" {
		return "<forever>", "<never>"
	}
	until, err := time.Parse(time.RFC3339, expiration)
	switch {
	case err != nil:
		return "<invalid>", expiration
	case !until.After(now):
		return "<expired>", expiration
	default:
		return duration.HumanDuration(until.Sub(now)), expiration
	}
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

func newDelete(session *hub.Session) *cobra.Command {
	mode := &dryrun.Mode{}
	cmd := &cobra.Command{
		Use:   "delete TOKEN...",
		Short: "Delete bootstrap tokens",
		Long: "Deletes bootstrap tokens, given in full or by the part before the dot. Clusters that have joined with them stay; nobody " +
			"can ask to join with them any more.",
		Example: `  capstan token delete abcdef`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("the token is missing")
			}
			for _, arg := range args {
				if _, err := parseTokenID(arg); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: complete.NamesCompletion(session, func(ctx context.Context, c client.Client) ([]string, error) {
			secrets, err := listTokenSecrets(ctx, c)
			var ids []string
			for i := range secrets {
				ids = append(ids, string(secrets[i].Data[api.BootstrapTokenIDKey]))
			}
			return ids, err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := mode.ValidateMode(); err != nil {
				return err
			}
			c, err := session.ConnectHub()
			if err != nil {
				return err
			}
			var failed []error
			for _, arg := range args {
				failed = append(failed, session.ExplainError(deleteToken(cmd.Context(), session, mode, mode.WrapClient(c), arg)))
			}
			return errors.Join(failed...)
		},
	}
	mode.AddFlag(cmd)
	return cmd
}

// parseTokenID returns the part of a token that is no secret.
func parseTokenID(token string) (string, error) {
	id, _, whole := strings.Cut(token, ".")
	if !util.IsValidBootstrapTokenID(id) || whole && !util.IsValidBootstrapToken(token) {
		return "", fmt.Errorf("%q is not a token: one looks like abcdef.0123456789abcdef, and its name like abcdef", token)
	}
	return id, nil
}

func deleteToken(ctx context.Context, session *hub.Session, mode *dryrun.Mode, c client.Client, token string) error {
	id, err := parseTokenID(token)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: util.BootstrapTokenSecretName(id)}}
	if mode.Skips() {
		err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	} else {
		err = c.Delete(ctx, secret)
	}
	if apierrors.IsNotFound(err) {
		return exit.Next(fmt.Errorf("there is no bootstrap token %q", id), "\"capstan token list\" lists those that exist.")
	}
	if err != nil {
		return fmt.Errorf("delete bootstrap token %q: %w", id, err)
	}
	fmt.Fprintf(session.Out, "bootstrap token %q deleted%s\n", id, mode.Suffix())
	if mode.Skips() {
		return nil
	}
	return clusterinfo.Unpublish(ctx, c, id)
}
