// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access connects to the cluster in a kubeconfig, which may be the hub
// or a member, and explains why a command cannot reach it.
//
// It never guesses which cluster is meant.
package access

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/server/version"
)

// dialTimeout bounds how long capstan tries to open a connection to a cluster, so
// that one which is not there is told about before the user gives up.
const dialTimeout = 10 * time.Second

// MessageWords are what messages say about a cluster.
type MessageWords struct {
	// Cluster is what the cluster is to the user, such as "the hub".
	Cluster string
	// Kubeconfig, Context and Server are the flags that lead to it, with their
	// dashes. Server is empty if there is none for it.
	Kubeconfig, Context, Server string
	// Missing is the next step if there is no kubeconfig at all, Slow if the
	// cluster does not answer in time, Webhooks if its webhooks do not.
	Missing, Slow, Webhooks string
	// Kinds is what it means for a cluster not to know a kind, after its name, and
	// Other the next step then. If empty, such an error stays as it is.
	Kinds, Other string
	// Code is the exit code for a cluster that cannot be asked.
	Code int
}

// ClusterAccess is how to reach one cluster.
type ClusterAccess struct {
	words  MessageWords
	flags  *genericclioptions.ConfigFlags
	errOut io.Writer
	// context and server say where this leads to, for messages.
	context, server string
	entry           clientcmdapi.Cluster
	clusterName     string
}

// NewClusterAccess returns the access that the flags lead to. Flags that are nil have their
// default. Warnings of the API server go to errOut.
func NewClusterAccess(words MessageWords, flags *genericclioptions.ConfigFlags, errOut io.Writer) *ClusterAccess {
	return &ClusterAccess{words: words, flags: flags, errOut: errOut}
}

// ListContexts returns the names of the contexts of the kubeconfig, sorted.
func (a *ClusterAccess) ListContexts() []string {
	raw, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	return contextNames(raw)
}

// DescribeTarget says which cluster this is about, for people: its address and its
// context, as far as they are known.
func (a *ClusterAccess) DescribeTarget() string {
	switch {
	case a.context != "" && a.server != "":
		return fmt.Sprintf("%s (context %q)", a.server, a.context)
	case a.server != "":
		return a.server
	default:
		return a.words.Cluster
	}
}

// ServerAddress returns the address of the cluster, once LoadRESTConfig was called.
func (a *ClusterAccess) ServerAddress() string { return a.server }

// KubeconfigEntry returns what the kubeconfig says about the cluster itself, once LoadRESTConfig
// was called.
func (a *ClusterAccess) KubeconfigEntry() clientcmdapi.Cluster { return a.entry }

// ClusterName returns what the kubeconfig calls the cluster, once LoadRESTConfig was
// called; nothing if it leads there without a context.
func (a *ClusterAccess) ClusterName() string { return a.clusterName }

// LoadRESTConfig returns how to reach the cluster. It does not send a request.
func (a *ClusterAccess) LoadRESTConfig() (*rest.Config, error) {
	loader := a.flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, a.unreachableError(fmt.Errorf("read the kubeconfig: %w", err), "Name a kubeconfig that can be read with %s or $KUBECONFIG.", a.words.Kubeconfig)
	}
	if err := a.checkContext(raw); err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, a.unreachableError(fmt.Errorf("use context %q of the kubeconfig: %w", a.context, err),
			"Look at it with \"kubectl config view\", and fix it with \"kubectl config set-context\" or choose another one with %s.", a.words.Context)
	}
	if _, err := url.Parse(config.Host); err != nil || config.Host == "" {
		next := "Fix it with \"kubectl config set-cluster\"."
		if a.words.Server != "" {
			next = fmt.Sprintf("Fix it with \"kubectl config set-cluster\", or give the address with %s.", a.words.Server)
		}
		return nil, a.unreachableError(fmt.Errorf("context %q of the kubeconfig has no valid server: %q", a.context, config.Host), "%s", next)
	}
	a.server = config.Host
	config.UserAgent = "capstan/" + version.SemanticVersion()
	config.QPS = -1 // the API server says itself when it is too much
	config.WarningHandlerWithContext = warnings{a.errOut}
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return config, nil
}

// checkContext checks that it is clear which cluster is meant. Without that clientcmd
// falls back to localhost, whose refusal helps nobody.
func (a *ClusterAccess) checkContext(raw clientcmdapi.Config) error {
	a.context = raw.CurrentContext
	if given := ptr.Deref(a.flags.Context, ""); given != "" {
		a.context = given
	}
	names := contextNames(raw)
	switch {
	case a.context != "":
		if raw.Contexts[a.context] == nil && len(names) == 0 {
			return a.unreachableError(fmt.Errorf("the kubeconfig has no context %q, and no other one", a.context), "%s", a.words.Missing)
		}
		if raw.Contexts[a.context] == nil {
			return a.unreachableError(fmt.Errorf("the kubeconfig has no context %q", a.context), "It has: %s. Choose one of them with %s.", strings.Join(names, ", "), a.words.Context)
		}
		return a.checkContextEntries(raw)
	case ptr.Deref(a.flags.APIServer, "") != "":
		return nil
	case len(names) > 0:
		return a.unreachableError(fmt.Errorf("the kubeconfig has no current context, so it does not say which cluster is %s", a.words.Cluster),
			"Choose %s with %s %s, or permanently with \"kubectl config use-context\".", a.words.Cluster, a.words.Context, strings.Join(names, ", "+a.words.Context+" "))
	case a.inCluster():
		return nil
	default:
		return a.unreachableError(fmt.Errorf("there is no kubeconfig, so the address of %s is unknown", a.words.Cluster), "%s", a.words.Missing)
	}
}

// checkContextEntries checks that what the context refers to is there.
func (a *ClusterAccess) checkContextEntries(raw clientcmdapi.Config) error {
	chosen := raw.Contexts[a.context]
	next := fmt.Sprintf("Look at it with \"kubectl config view\", and fix it or choose another context with %s.", a.words.Context)
	if raw.Clusters[chosen.Cluster] == nil && ptr.Deref(a.flags.APIServer, "") == "" {
		return a.unreachableError(fmt.Errorf("context %q of the kubeconfig is about cluster %q, which is not in it", a.context, chosen.Cluster), "%s", next)
	}
	if raw.AuthInfos[chosen.AuthInfo] == nil && chosen.AuthInfo != "" {
		return a.unreachableError(fmt.Errorf("context %q of the kubeconfig is about user %q, who is not in it", a.context, chosen.AuthInfo), "%s", next)
	}
	if entry := raw.Clusters[chosen.Cluster]; entry != nil {
		a.entry = *entry
		a.clusterName = chosen.Cluster
	}
	return nil
}

func contextNames(raw clientcmdapi.Config) []string {
	var names []string
	for name := range raw.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// inCluster reports whether capstan runs in a pod, whose ServiceAccount stands in
// for a kubeconfig.
func (a *ClusterAccess) inCluster() bool {
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("KUBECONFIG") == "" && ptr.Deref(a.flags.KubeConfig, "") == ""
}

// unreachableError returns an error of a cluster that cannot be asked.
func (a *ClusterAccess) unreachableError(err error, next string, args ...any) error {
	return &exit.Error{Err: err, Next: fmt.Sprintf(next, args...), Code: a.words.Code}
}

// warnings shows what the API server warns of.
type warnings struct{ to io.Writer }

// HandleWarningHeaderWithContext shows one warning.
func (w warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	const miscellaneous = 299 // the only code that API servers use
	if code == miscellaneous && text != "" {
		fmt.Fprintf(w.to, "Warning: %s\n", text)
	}
}
