// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/util"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// defaultTTL is how long a token is valid. It lies about in shells and files, so
// it should end soon; an agent needs it once.
const defaultTTL = 24 * time.Hour

// creating is one call of "token create".
type creating struct {
	session     *hub.Session
	mode        dryrun.Mode
	ttl         time.Duration
	groups      []string
	usages      []string
	description string
	kubeconfig  bool
}

func newCreate(session *hub.Session) *cobra.Command {
	c := &creating{session: session}
	cmd := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Make a bootstrap token",
		Long: "Makes a bootstrap token, by which a cluster may ask to join and do nothing else, and prints it; or, with " +
			"--print-kubeconfig, a kubeconfig with it, which is what a Klusterlet takes as bootstrap-hub-kubeconfig. Its address and CA " +
			"are those of the kubeconfig in use, so members have to reach the hub at that address. The API server of the hub needs " +
			"--enable-bootstrap-token-auth, as kubeadm sets it.",
		Example: `  # A kubeconfig for members, valid for an hour
  capstan token create --ttl 1h --print-kubeconfig > hub.kubeconfig
  make deploy-spoke HUB_KUBECONFIG=hub.kubeconfig MANAGED_CLUSTER_NAME=member1

  # The token alone
  capstan token create --description "for member1"`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cmd.Flags().DurationVar(&c.ttl, "ttl", defaultTTL, "How long the token is valid, such as 1h; 0 is forever")
	cmd.Flags().StringSliceVar(&c.groups, "groups", []string{clusterv1.GroupBootstrappers}, "Groups that the token is in on the hub; they begin with system:bootstrappers:")
	cmd.Flags().StringSliceVar(&c.usages, "usages", slices.Clone(api.KnownTokenUsages), "What the token may be used for: signing, authentication")
	cmd.Flags().StringVar(&c.description, "description", "", "What the token is for, for people")
	cmd.Flags().BoolVar(&c.kubeconfig, "print-kubeconfig", false, "Print a kubeconfig with the token instead of the token")
	c.mode.AddFlag(cmd)
	return cmd
}

// check returns an error for flags that make no sense.
func (c *creating) check() error {
	if err := c.mode.Check(); err != nil {
		return err
	}
	if c.ttl < 0 || c.ttl > 0 && c.ttl < time.Second {
		return exit.UsageError("--ttl: %s is no time that a token can be valid for", c.ttl)
	}
	for _, group := range c.groups {
		if err := util.ValidateBootstrapGroupName(group); err != nil {
			return exit.UsageError("--groups: %w", err)
		}
	}
	if err := util.ValidateUsages(c.usages); err != nil {
		return exit.UsageError("--usages: %w", err)
	}
	return nil
}

func (c *creating) run(ctx context.Context, args []string) error {
	if err := c.check(); err != nil {
		return err
	}
	token, err := chosen(args)
	if err != nil {
		return err
	}
	config, err := c.session.Config()
	if err != nil {
		return err
	}
	text := []byte(token + "\n")
	if c.kubeconfig {
		if text, err = kubeconfig(config, token); err != nil {
			return err
		}
	}
	connection, err := c.session.Connect()
	if err != nil {
		return err
	}
	if !c.mode.Skips() {
		if err := c.mode.Client(connection).Create(ctx, c.secret(token)); apierrors.IsAlreadyExists(err) {
			id, _, _ := strings.Cut(token, ".")
			return exit.Next(fmt.Errorf("there is a bootstrap token %q already", id), "Choose another one, or delete it with \"capstan token delete %s\".", id)
		} else if err != nil {
			return fmt.Errorf("create a bootstrap token: %w", err)
		}
	}
	_, err = c.session.Out.Write(text)
	return err
}

// chosen returns the token that the user gives, or a random one.
func chosen(args []string) (string, error) {
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

// secret is what the API server authenticates the token by.
func (c *creating) secret(token string) *corev1.Secret {
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
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: util.BootstrapTokenSecretName(id)},
		Type:       api.SecretTypeBootstrapToken, StringData: data,
	}
}

// kubeconfig returns a kubeconfig of the hub with the token and nothing of the
// credentials in use.
func kubeconfig(config *rest.Config, token string) ([]byte, error) {
	if config.Insecure {
		return nil, exit.Next(errors.New("the kubeconfig does not verify the certificate of the hub, and agents have to"),
			"Use a kubeconfig with the CA of the hub, without insecure-skip-tls-verify.")
	}
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, fmt.Errorf("read the CA of the hub: %w", err)
		}
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: ca}
	c.AuthInfos["bootstrap"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["bootstrap"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "bootstrap"}
	c.CurrentContext = "bootstrap"
	text, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return text, nil
}
