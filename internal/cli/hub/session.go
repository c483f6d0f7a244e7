// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub connects the commands of capstan to the hub, and says what to do
// if that fails.
package hub

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/access"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// Session is what the commands of one call of capstan share.
type Session struct {
	genericiooptions.IOStreams
	// Clock tells how old things are.
	Clock clock.PassiveClock

	flags  *genericclioptions.ConfigFlags
	access *access.ClusterAccess
}

// NewSession returns a session that is not connected yet.
func NewSession(streams genericiooptions.IOStreams, c clock.PassiveClock) *Session {
	flags := &genericclioptions.ConfigFlags{
		KubeConfig:       ptr.To(""),
		Context:          ptr.To(""),
		APIServer:        ptr.To(""),
		Impersonate:      ptr.To(""),
		ImpersonateUID:   ptr.To(""),
		ImpersonateGroup: ptr.To([]string{}),
		Timeout:          ptr.To("0"),
	}
	return &Session{IOStreams: streams, Clock: c, flags: flags, access: access.NewClusterAccess(hubMessageWords(), flags, streams.ErrOut)}
}

// AskYesNo asks the user a question that is answered by yes or no; no answer is a no. Without a
// terminal there is nobody to ask.
func (s *Session) AskYesNo(question string) (yes, asked bool) {
	in, isFile := s.In.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return false, false
	}
	fmt.Fprintf(s.ErrOut, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n') // No answer is a no.
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))), true
}

// hubMessageWords are what messages say about the hub.
func hubMessageWords() access.MessageWords {
	return access.MessageWords{
		Cluster: "the hub", Kubeconfig: "--kubeconfig", Context: "--context", Server: "--server",
		Missing:  "Give the kubeconfig of the hub with --kubeconfig FILE or $KUBECONFIG; the default is ~/.kube/config. Without a hub yet, make a cluster one: see docs/cli.md.",
		Slow:     "Try again, with more time with --request-timeout.",
		Webhooks: "The hub's webhooks do not answer: look at the pods in namespace open-cluster-management-hub, and at \"kubectl describe clustermanager\".",
		Kinds:    "is not a Capstan hub: it does not serve the kinds of one",
		Other:    "Choose the hub with --context, or turn this cluster into one with \"capstan init\". If a hub is being installed, wait until its ClusterManager is Applied.",
		Code:     exit.NoHub,
	}
}

// AddFlags adds the flags that tell how to reach the hub.
func (s *Session) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(s.flags.KubeConfig, "kubeconfig", "", "Path of the kubeconfig of the hub (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(s.flags.Context, "context", "", "Context of the hub in the kubeconfig (default: its current context); --karmada-context is the same flag")
	flags.StringVarP(s.flags.APIServer, "server", "s", "", "Address of the hub's API server, instead of the one in the kubeconfig")
	flags.StringVar(s.flags.Impersonate, "as", "", "User to impersonate on the hub")
	flags.StringVar(s.flags.ImpersonateUID, "as-uid", "", "UID to impersonate on the hub")
	flags.StringArrayVar(s.flags.ImpersonateGroup, "as-group", nil, "Group to impersonate on the hub; may be given several times")
	flags.StringVar(s.flags.Timeout, "request-timeout", "0", "How long one request to the hub may take, such as 10s; 0 means no limit")
}

// AddServerFlag adds --server to a command whose -s is another flag.
func (s *Session) AddServerFlag(flags *pflag.FlagSet) {
	flags.StringVar(s.flags.APIServer, "server", "", "Address of the hub's API server, instead of the one in the kubeconfig; -s is --operation-scope here")
}

// NormalizeFlagAliases maps the flags of other tools for the same thing to ours.
func NormalizeFlagAliases(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "karmada-context":
		name = "context"
	case "karmada-config":
		name = "kubeconfig"
	case "karmada-agent-image":
		name = "image"
	}
	return pflag.NormalizedName(name)
}

// ConfigFlags returns the flags that tell how to reach a cluster, for commands to
// which this cluster is not the hub.
func (s *Session) ConfigFlags() *genericclioptions.ConfigFlags { return s.flags }

// ListContexts returns the names of the contexts of the kubeconfig, sorted.
func (s *Session) ListContexts() []string { return s.access.ListContexts() }

// DescribeTarget says which hub the session is about, for people: its context and
// address, as far as they are known.
func (s *Session) DescribeTarget() string { return s.access.DescribeTarget() }

// ServerAddress returns the address of the hub, once the session is connected.
func (s *Session) ServerAddress() string { return s.access.ServerAddress() }

// LoadRESTConfig returns how to reach the hub.
func (s *Session) LoadRESTConfig() (*rest.Config, error) { return s.access.LoadRESTConfig() }

// ExplainError adds to an error of a request what it means and the next step. An
// error that has a next step already, or none that is known, stays as it is.
func (s *Session) ExplainError(err error) error { return s.access.ExplainError(err) }

// ConnectHub returns a client for the hub. It does not send a request yet.
func (s *Session) ConnectHub() (client.WithWatch, error) {
	config, err := s.LoadRESTConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: newMapper()})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", s.DescribeTarget(), err)
	}
	return c, nil
}

// ContextNamespace returns the namespace that the context sets, or nothing.
func (s *Session) ContextNamespace() string {
	raw, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	if chosen := raw.Contexts[cmp.Or(*s.flags.Context, raw.CurrentContext)]; chosen != nil {
		return chosen.Namespace
	}
	return ""
}

// NamespaceOf returns the namespace that is meant as kubectl means it: the given
// one, that of the context, or "default".
func (s *Session) NamespaceOf(given string) string {
	return cmp.Or(given, s.ContextNamespace(), metav1.NamespaceDefault)
}

// IsKindServed reports whether an answer "not found" is about one object, and not about
// a kind that the hub does not know.
func IsKindServed(err error) bool { return access.IsKindServed(err) }
