// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub connects the commands of capstan with the hub, and tells what to
// do if that does not work.
package hub

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/version"
)

// dialTimeout bounds how long capstan tries to open a connection to the hub, so
// that a hub which is not there is told about before the user gives up.
const dialTimeout = 10 * time.Second

// Session is what the commands of one call of capstan share.
type Session struct {
	genericiooptions.IOStreams
	// Clock tells how old things are.
	Clock clock.PassiveClock

	flags *genericclioptions.ConfigFlags
	// context and server say where the session is connected to, for messages.
	context, server string
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
	return &Session{IOStreams: streams, Clock: c, flags: flags}
}

// AddFlags adds the flags that tell how to reach the hub.
func (s *Session) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(s.flags.KubeConfig, "kubeconfig", "", "Path of the kubeconfig of the hub (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(s.flags.Context, "context", "", "Context of the kubeconfig that stands for the hub (default: its current context); --karmada-context is the same flag")
	flags.StringVarP(s.flags.APIServer, "server", "s", "", "Address of the API server of the hub, instead of that in the kubeconfig")
	flags.StringVar(s.flags.Impersonate, "as", "", "User to impersonate on the hub")
	flags.StringVar(s.flags.ImpersonateUID, "as-uid", "", "UID to impersonate on the hub")
	flags.StringArrayVar(s.flags.ImpersonateGroup, "as-group", nil, "Group to impersonate on the hub; may be given several times")
	flags.StringVar(s.flags.Timeout, "request-timeout", "0", "How long one request to the hub may take, such as 10s; 0 is as long as it takes")
}

// Aliases maps the flags of other tools for the same thing to ours.
func Aliases(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "karmada-context" {
		name = "context"
	}
	return pflag.NormalizedName(name)
}

// Contexts returns the names of the contexts of the kubeconfig, sorted.
func (s *Session) Contexts() []string {
	raw, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	return contextNames(raw)
}

// Where says which hub the session is about, for people: its context and
// address, as far as they are known.
func (s *Session) Where() string {
	switch {
	case s.context != "" && s.server != "":
		return fmt.Sprintf("%s (context %q)", s.server, s.context)
	case s.server != "":
		return s.server
	default:
		return "the hub"
	}
}

// Server returns the address of the hub, once the session is connected.
func (s *Session) Server() string { return s.server }

// Connect returns a client for the hub. It does not send a request yet.
func (s *Session) Connect() (client.WithWatch, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: newMapper()})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", s.Where(), err)
	}
	return c, nil
}

// Config returns how to reach the hub.
func (s *Session) Config() (*rest.Config, error) {
	loader := s.flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, noHub(fmt.Errorf("read the kubeconfig: %w", err), "Name a kubeconfig that can be read by --kubeconfig or $KUBECONFIG.")
	}
	if err := s.choose(raw); err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, noHub(fmt.Errorf("use context %q of the kubeconfig: %w", s.context, err),
			"Look at it with \"kubectl config view\", and mend it with \"kubectl config set-context\" or choose another one by --context.")
	}
	if _, err := url.Parse(config.Host); err != nil || config.Host == "" {
		return nil, noHub(fmt.Errorf("context %q of the kubeconfig has no valid server: %q", s.context, config.Host),
			"Mend it with \"kubectl config set-cluster\", or give the address by --server.")
	}
	s.server = config.Host
	config.UserAgent = "capstan/" + version.Get()
	config.QPS = -1 // the API server says itself when it is too much
	config.WarningHandlerWithContext = warnings{s.ErrOut}
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return config, nil
}

// choose checks that it is clear which hub is meant. Without that clientcmd
// falls back to localhost, whose refusal helps nobody.
func (s *Session) choose(raw clientcmdapi.Config) error {
	s.context = raw.CurrentContext
	if *s.flags.Context != "" {
		s.context = *s.flags.Context
	}
	names := contextNames(raw)
	switch {
	case s.context != "":
		if raw.Contexts[s.context] == nil && len(names) == 0 {
			return noHub(fmt.Errorf("the kubeconfig has no context %q, and no other one", s.context), noKubeconfigNext)
		}
		if raw.Contexts[s.context] == nil {
			return noHub(fmt.Errorf("the kubeconfig has no context %q", s.context), "It has: %s. Choose one of them by --context.", strings.Join(names, ", "))
		}
		return s.whole(raw)
	case *s.flags.APIServer != "":
		return nil
	case len(names) > 0:
		return noHub(fmt.Errorf("the kubeconfig has no current context, so it does not say which cluster is the hub"),
			"Choose the hub by --context %s, or for good by \"kubectl config use-context\".", strings.Join(names, ", --context "))
	case inCluster():
		return nil
	default:
		return noHub(fmt.Errorf("there is no kubeconfig, so it is not known where the hub is"), noKubeconfigNext)
	}
}

// whole checks that what the context refers to is there.
func (s *Session) whole(raw clientcmdapi.Config) error {
	chosen, next := raw.Contexts[s.context], "Look at it with \"kubectl config view\", and mend it or choose another context by --context."
	if raw.Clusters[chosen.Cluster] == nil && *s.flags.APIServer == "" {
		return noHub(fmt.Errorf("context %q of the kubeconfig is about cluster %q, which is not in it", s.context, chosen.Cluster), "%s", next)
	}
	if raw.AuthInfos[chosen.AuthInfo] == nil && chosen.AuthInfo != "" {
		return noHub(fmt.Errorf("context %q of the kubeconfig is about user %q, who is not in it", s.context, chosen.AuthInfo), "%s", next)
	}
	return nil
}

const noKubeconfigNext = "Give the kubeconfig of the hub by --kubeconfig FILE or $KUBECONFIG; the default is ~/.kube/config. Without a hub yet, make a cluster one: see docs/cli.md."

func contextNames(raw clientcmdapi.Config) []string {
	var names []string
	for name := range raw.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// inCluster tells whether capstan runs in a pod, whose ServiceAccount stands in
// for a kubeconfig.
func inCluster() bool {
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("KUBECONFIG") == ""
}

// Namespace returns the namespace that the context sets, or nothing.
func (s *Session) Namespace() string {
	raw, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	if chosen := raw.Contexts[cmp.Or(*s.flags.Context, raw.CurrentContext)]; chosen != nil {
		return chosen.Namespace
	}
	return ""
}

func noHub(err error, next string, args ...any) error {
	return &exit.Error{Err: err, Next: fmt.Sprintf(next, args...), Code: exit.NoHub}
}

// warnings shows what the API server warns of.
type warnings struct {
	to interface{ Write([]byte) (int, error) }
}

// HandleWarningHeaderWithContext shows one warning.
func (w warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	const miscellaneous = 299 // the only code that API servers use
	if code == miscellaneous && text != "" {
		fmt.Fprintf(w.to, "Warning: %s\n", text)
	}
}
