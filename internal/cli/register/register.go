// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package register joins a cluster to a hub as a Pull cluster, with the
// kubeconfig of the cluster and only a token of the hub; and removes it again.
package register

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/discovery"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/member"
)

// defaultTimeout is how long each step may take: pulling an image may take
// minutes, and so may it until an administrator accepts the cluster.
const defaultTimeout = 5 * time.Minute

// certificateSecondsMin is the shortest life of a certificate that an API server
// takes a request for.
const certificateSecondsMin = 600

// registerCommand is one call of "register".
type registerCommand struct {
	session *hub.Session
	mode    dryrun.Mode
	// What the flags say.
	token, name, namespace, image, agents, endpoint string
	hashes                                          []string
	skipCA, wait                                    bool
	timeout                                         time.Duration
	certificateSeconds                              int32
	// address is HOST:PORT of the hub.
	address string
	member  *member.Member
	// client knows the kinds that are only being installed.
	client client.Client
}

// NewRegisterCommand returns the command "register".
func NewRegisterCommand(session *hub.Session) *cobra.Command {
	r := &registerCommand{session: session}
	cmd := &cobra.Command{
		Use:   "register HOST:PORT --token TOKEN --discovery-token-ca-cert-hash HASH",
		Short: "Join this cluster to a hub that it dials (Pull)",
		Long: "Joins the cluster of the current kubeconfig, the member, to the hub at HOST:PORT. \"capstan token create " +
			"--print-register-command\" on the hub prints the command line. It installs the operator klusterlet in the member, and an agent " +
			"that asks the hub for a certificate; an administrator of the hub accepts it with \"capstan accept NAME\", unless the token " +
			"accepts it already. It needs no credential of the hub except the token, and no credential leaves the member.\n\n" +
			"The hub is trusted because it knows the token and its CA has the given hash.\n\n" +
			"After an interruption, run the same command again to continue. \"capstan unregister\" undoes it.",
		Example: `  # What "capstan token create --print-register-command" prints
  capstan register hub.example.com:6443 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:0000000000000000000000000000000000000000000000000000000000000000

  # Another context of the kubeconfig, under another name
  capstan register hub.example.com:6443 --context edge --cluster-name edge-1 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:0000000000000000000000000000000000000000000000000000000000000000`,
		Args:              args.One("the address of the hub"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.checkArguments(args[0]); err != nil {
				return err
			}
			r.tellWithoutEffect(cmd.Flags())
			return r.runRegister(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&r.token, "token", "", "Bootstrap token of the hub")
	cmd.Flags().StringSliceVar(&r.hashes, "discovery-token-ca-cert-hash", nil, "Hash of the hub's CA, sha256:…; several if the hub has several CAs")
	cmd.Flags().BoolVar(&r.skipCA, "discovery-token-unsafe-skip-ca-verification", false, "Without a hash, trust anyone who knows the token to be the hub")
	cmd.Flags().StringVar(&r.name, "cluster-name", "", "Name of the cluster on the hub (default: that of the cluster in the kubeconfig)")
	cmd.Flags().StringVar(&r.endpoint, flagEndpoint, "", "Address of the cluster that the hub shows (default: that in its kubeconfig)")
	cmd.Flags().StringVarP(&r.namespace, "namespace", "n", operatorv1.DefaultAgentNamespace, "Namespace of the agent in the member")
	cmd.Flags().StringVar(&r.image, "image", "", "Image of the operator and the agent (default: that of this release)")
	cmd.Flags().StringVar(&r.agents, "mode", string(operatorv1.InstallModeSingleton), "Singleton: one agent; Default: one for registration and one for work")
	cmd.Flags().BoolVar(&r.wait, "wait", true, "Wait until the cluster has joined")
	cmd.Flags().DurationVar(&r.timeout, "timeout", defaultTimeout, "How long each step may take")
	cmd.Flags().Int32Var(&r.certificateSeconds, "cert-expiration-seconds", 0, "Requested lifetime of the agent's certificate, in seconds; at least 600 (default: that of the hub)")
	r.mode.AddFlag(cmd)
	addWithoutEffect(cmd.Flags())
	return cmd
}

// withoutEffect are flags of karmadactl that guides use and that mean nothing
// here, and why.
func withoutEffect() map[string]string {
	return map[string]string{
		"enable-cert-rotation":   "certificates of agents are always renewed",
		"karmada-agent-replicas": "how many pods an agent has is decided by the number of nodes",
		"proxy-server-address":   "the hub does not dial a Pull cluster",
	}
}

func addWithoutEffect(flags *pflag.FlagSet) {
	for name, why := range withoutEffect() {
		flags.String(name, "", "Has no effect: "+why)
		flags.Lookup(name).Hidden = true
		flags.Lookup(name).NoOptDefVal = "true"
	}
}

// tellWithoutEffect tells about such flags.
func (r *registerCommand) tellWithoutEffect(flags *pflag.FlagSet) {
	all := withoutEffect()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if flags.Changed(name) {
			fmt.Fprintf(r.session.ErrOut, "--%s has no effect: %s\n", name, all[name])
		}
	}
}

// checkArguments returns an error for arguments that make no sense.
func (r *registerCommand) checkArguments(address string) error {
	if err := r.mode.ValidateMode(); err != nil {
		return err
	}
	r.address = strings.TrimSuffix(strings.TrimPrefix(address, "https://"), "/")
	if host, port, err := net.SplitHostPort(r.address); err != nil || host == "" || port == "" {
		return exit.UsageError("%q is not the address of a hub: one looks like hub.example.com:6443", address)
	}
	if err := r.checkTrust(); err != nil {
		return err
	}
	if err := checkEndpoint(r.endpoint); err != nil {
		return err
	}
	switch {
	case r.certificateSeconds != 0 && r.certificateSeconds < certificateSecondsMin:
		return exit.UsageError("--cert-expiration-seconds: %d is less than %d, the minimum of Kubernetes", r.certificateSeconds, certificateSecondsMin)
	case r.agents != string(operatorv1.InstallModeSingleton) && r.agents != string(operatorv1.InstallModeDefault):
		return exit.UsageError("--mode: unknown mode %q; the modes are Singleton and Default", r.agents)
	}
	for flag, name := range map[string]string{"--cluster-name": r.name, "--namespace": r.namespace} {
		if problems := validation.IsDNS1123Label(name); name != "" && len(problems) > 0 {
			return exit.UsageError("%s: %q: %s", flag, name, strings.Join(problems, "; "))
		}
	}
	return nil
}

// checkTrust checks what the hub and the member trust each other by.
func (r *registerCommand) checkTrust() error {
	switch {
	case r.token == "":
		return exit.UsageError("--token is missing: \"capstan token create --print-register-command\" on the hub prints what to type")
	case !util.IsValidBootstrapToken(r.token):
		return exit.UsageError("--token: %q is not a token: one looks like abcdef.0123456789abcdef", r.token)
	case len(r.hashes) == 0 && !r.skipCA:
		return exit.UsageError("--discovery-token-ca-cert-hash is missing: without it, whoever knows the token could pretend to be the hub; " +
			"--discovery-token-unsafe-skip-ca-verification does without")
	}
	if _, err := discovery.ParsePins(r.hashes); err != nil {
		return exit.UsageError("--discovery-token-ca-cert-hash: %w", err)
	}
	return nil
}

func (r *registerCommand) runRegister(ctx context.Context) error {
	var err error
	if r.member, err = member.InUse(r.session.ConfigFlags(), r.session.ErrOut); err != nil {
		return err
	}
	if r.client, err = install.NewClient(r.member.Config); err != nil {
		return err
	}
	fmt.Fprintln(r.session.Out, "[preflight] Running pre-flight checks")
	joining, err := r.preflight(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(r.session.Out, "[preflight] All pre-flight checks were passed")
	if !r.mode.MakesChanges() {
		fmt.Fprintf(r.session.Out, "cluster(%s) would join the hub at %s%s\n", joining.name, r.address, r.mode.Suffix())
		return nil
	}
	if err := r.member.ExplainError(r.installAgent(ctx, joining)); err != nil {
		return err
	}
	if !r.wait {
		fmt.Fprintf(r.session.ErrOut, "The agent asks the hub now. On the hub, accept it: capstan accept %s\n", joining.name)
		return nil
	}
	if err := r.member.ExplainError(r.awaitJoined(ctx, joining)); err != nil {
		return err
	}
	fmt.Fprintf(r.session.Out, "cluster(%s) is joined successfully\n", joining.name)
	return nil
}

// announceStep tells which step begins.
func (r *registerCommand) announceStep(text string) {
	fmt.Fprintln(r.session.Out, "[klusterlet-start] "+text)
}

// newWaiter waits with the user's patience, and tells for what.
func (r *registerCommand) newWaiter() install.Waiter {
	return install.Waiter{Client: r.client, Timeout: r.timeout, Note: func(text string) { fmt.Fprintf(r.session.ErrOut, " • %s\n", columns.OneLine(text)) }}
}

// memberName returns the name of the member on the hub: that which the user wants,
// or that which the kubeconfig has for it, made a DNS label.
func memberName(wanted, entry string) (string, error) {
	const nameBytesMax = validation.DNS1123LabelMaxLength
	label := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(entry))
	label = strings.Trim(label, "-")
	label = strings.TrimRight(label[:min(len(label), nameBytesMax)], "-")
	if name := cmp.Or(wanted, label); name != "" {
		return name, nil
	}
	return "", exit.UsageError("the name of the cluster in the kubeconfig cannot be its name on the hub: give one with --cluster-name")
}
