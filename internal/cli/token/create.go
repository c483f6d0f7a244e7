// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/clusterinfo"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
)

// defaultTTL is how long a token is valid. It lies about in shells and files, so
// it should end soon; an agent needs it once.
const defaultTTL = 24 * time.Hour

// Usages of tokens: by the first, members verify the hub; by the second, the hub
// knows who asks to join.
const (
	signing        = "signing"
	authentication = "authentication"
)

// clusterManagerApp is how OCM's tools label what belongs to a hub.
const clusterManagerApp = "cluster-manager"

// createCommand is one call of "token create".
type createCommand struct {
	session     *hub.Session
	mode        dryrun.Mode
	ttl         time.Duration
	groups      []string
	usages      []string
	description string
	names       []string
	autoAccept  bool
	// What is printed instead of the token.
	kubeconfig, command bool
	// program is how capstan was called.
	program string
}

func newCreate(session *hub.Session) *cobra.Command {
	c := &createCommand{session: session}
	cmd := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Create a bootstrap token",
		Long: "Creates a bootstrap token, with which a cluster may ask to join and do nothing else, and prints it. With " +
			"--print-register-command, it prints the command to run where the kubeconfig of the member is; with --print-kubeconfig, a " +
			"kubeconfig with the token, which is what a Klusterlet takes as bootstrap-hub-kubeconfig. Members have to reach the hub at the " +
			"address in the kubeconfig in use; --server gives another one. The API server of the hub needs " +
			"--enable-bootstrap-token-auth, which kubeadm sets.\n\n" +
			"--cluster-name binds the token to names of clusters: with it, no cluster can ask to join under another name. With " +
			"--auto-accept, the hub accepts these clusters without an administrator: each name once, and only into the default set. " +
			"How long the token is valid, for which clusters, and how many of them may wait for acceptance at a time is printed to stderr.\n\n" +
			"So that members can verify the hub, its address and CA are published in ConfigMap kube-public/cluster-info, if they are " +
			"not yet, and signed with the token, as kubeadm does.",
		Example: `  # The command for a cluster that is to join
  capstan token create --print-register-command

  # Accept clusters edge-1, edge-2 and so on automatically, for an hour
  capstan token create --ttl 1h --cluster-name 'edge-*' --auto-accept --print-register-command

  # A kubeconfig for members, valid for an hour
  capstan token create --ttl 1h --print-kubeconfig > hub.kubeconfig
  make deploy-spoke HUB_KUBECONFIG=hub.kubeconfig MANAGED_CLUSTER_NAME=member1

  # Only the token
  capstan token create --description "for member1"`,
		Args:              args.AtMostOne("the token"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.program = cmd.Root().CommandPath()
			return c.runTokenCreate(cmd.Context(), args)
		},
	}
	cmd.Flags().DurationVar(&c.ttl, "ttl", defaultTTL, "How long the token is valid, such as 1h; 0 is forever")
	cmd.Flags().StringSliceVar(&c.groups, "groups", []string{clusterv1.GroupBootstrappers}, "Groups that the token is in on the hub; they begin with system:bootstrappers:")
	cmd.Flags().StringSliceVar(&c.usages, "usages", slices.Clone(api.KnownTokenUsages), "What the token may be used for: signing, authentication")
	cmd.Flags().StringVar(&c.description, "description", "", "What the token is for, for human readers")
	cmd.Flags().StringSliceVar(&c.names, "cluster-name", nil, "Names of the only clusters that may ask to join with the token, such as edge-1, or edge-* for all that begin with edge- (default: any)")
	cmd.Flags().BoolVar(&c.autoAccept, "auto-accept", false, "Let the hub accept these clusters without an administrator; needs --cluster-name")
	cmd.Flags().BoolVar(&c.command, "print-register-command", false, "Print the command \"register\" for members instead of the token")
	cmd.Flags().BoolVar(&c.kubeconfig, "print-kubeconfig", false, "Print a kubeconfig with the token instead of the token")
	c.mode.AddFlag(cmd)
	return cmd
}

// checkFlags returns an error for flags that make no sense.
func (c *createCommand) checkFlags() error {
	if err := c.mode.ValidateMode(); err != nil {
		return err
	}
	if c.ttl < 0 || c.ttl > 0 && c.ttl < time.Second {
		return exit.UsageError("--ttl: %s is not a valid lifetime of a token", c.ttl)
	}
	for _, group := range c.groups {
		if err := util.ValidateBootstrapGroupName(group); err != nil {
			return exit.UsageError("--groups: %w", err)
		}
	}
	if err := util.ValidateUsages(c.usages); err != nil {
		return exit.UsageError("--usages: %w", err)
	}
	if c.command && c.kubeconfig {
		return exit.UsageError("--print-register-command and --print-kubeconfig exclude each other")
	}
	if c.command && len(c.usages) < len(api.KnownTokenUsages) {
		return exit.UsageError("--usages: to register a cluster takes a token for %s", strings.Join(api.KnownTokenUsages, " and "))
	}
	return c.bindGroups()
}

// bindGroups adds the groups that bind the token.
func (c *createCommand) bindGroups() error {
	if len(c.names) == 0 && !c.autoAccept {
		return nil
	}
	groups, err := boundtoken.TokenGroups(c.names, c.autoAccept)
	if err != nil && len(c.names) == 0 {
		return exit.UsageError("--auto-accept needs --cluster-name: %w", err)
	}
	if err != nil {
		return exit.UsageError("--cluster-name: %w", err)
	}
	for _, group := range groups {
		if !slices.Contains(c.groups, group) {
			c.groups = append(c.groups, group)
		}
	}
	return nil
}

func (c *createCommand) runTokenCreate(ctx context.Context, args []string) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	token, err := chooseToken(args)
	if err != nil {
		return err
	}
	config, err := c.session.LoadRESTConfig()
	if err != nil {
		return err
	}
	printed, err := c.outputRenderer(config)
	if err != nil {
		return err
	}
	connection, err := c.session.ConnectHub()
	if err != nil {
		return err
	}
	if !c.mode.Skips() {
		if err := c.createTokenOnHub(ctx, c.mode.WrapClient(connection), config, token); err != nil {
			return err
		}
	}
	text, err := printed(ctx, connection, token)
	if err != nil {
		return err
	}
	if _, err = c.session.Out.Write(text); err != nil {
		return err
	}
	if c.allowsJoin() && c.mode.MakesChanges() {
		fmt.Fprintln(c.session.ErrOut, c.describeLimits(ctx, connection))
	}
	return nil
}

// createTokenOnHub makes the token on the hub.
func (c *createCommand) createTokenOnHub(ctx context.Context, hub client.Client, config *rest.Config, token string) error {
	id, _, _ := strings.Cut(token, ".")
	if err := hub.Create(ctx, c.tokenSecret(token)); apierrors.IsAlreadyExists(err) {
		return exit.Next(fmt.Errorf("bootstrap token %q already exists", id), "Choose another one, or delete it with \"capstan token delete %s\".", id)
	} else if err != nil {
		return fmt.Errorf("create a bootstrap token: %w", err)
	}
	if !slices.Contains(c.usages, signing) || c.kubeconfig {
		return nil
	}
	err := clusterinfo.Publish(ctx, hub, config, token)
	switch {
	case err == nil:
		return nil
	case c.command:
		return exit.Next(err, "Without that, no cluster can register. The token is there: delete it with \"capstan token delete %s\", and create another one when this is fixed.", id)
	default: // for those who do without "register"
		fmt.Fprintf(c.session.ErrOut, "Warning: no cluster can register with this token, as the hub does not publish how to trust it: %v\n", err)
		return nil
	}
}

// chooseToken returns the token that the user gives, or a random one.
func chooseToken(args []string) (string, error) {
	if len(args) == 0 {
		token, err := util.GenerateBootstrapToken()
		if err != nil {
			return "", fmt.Errorf("make a random token: %w", err)
		}
		return token, nil
	}
	if !util.IsValidBootstrapToken(args[0]) {
		return "", exit.UsageError("%q is not a token: one looks like abcdef.0123456789abcdef", args[0])
	}
	return args[0], nil
}

// tokenSecret is what the API server authenticates the token by.
func (c *createCommand) tokenSecret(token string) *corev1.Secret {
	id, value, _ := strings.Cut(token, ".")
	data := map[string]string{
		api.BootstrapTokenIDKey: id, api.BootstrapTokenSecretKey: value, api.BootstrapTokenExtraGroupsKey: strings.Join(c.groups, ","),
	}
	for _, usage := range c.usages {
		data[api.BootstrapTokenUsagePrefix+usage] = "true"
	}
	if c.description != "" {
		data[api.BootstrapTokenDescriptionKey] = c.description
	}
	if c.ttl > 0 {
		data[api.BootstrapTokenExpirationKey] = c.session.Clock.Now().Add(c.ttl).UTC().Format(time.RFC3339)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: util.BootstrapTokenSecretName(id), Labels: c.tokenLabels()},
		Type:       api.SecretTypeBootstrapToken, StringData: data,
	}
}

// tokenLabels let "clusteradm get token --use-bootstrap-token" find the token, which
// takes the newest with the label of its hub, if a cluster can ask to join with
// it under any name.
func (c *createCommand) tokenLabels() map[string]string {
	if !c.allowsJoin() || len(c.names) > 0 {
		return nil
	}
	return map[string]string{render.AppLabel: clusterManagerApp}
}
