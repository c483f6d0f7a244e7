// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member connects commands of capstan to a member through a second
// kubeconfig, and says what to do if that fails.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/access"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// requestTimeout bounds each request to a member, so that one that hangs is told
// about.
const requestTimeout = 30 * time.Second

// The names of the flags.
const (
	FlagKubeconfig = "cluster-kubeconfig"
	FlagContext    = "cluster-context"
)

// KubeconfigFlags are the flags that tell how to reach a member.
type KubeconfigFlags struct{ kubeconfig, context string }

// AddFlags adds the flags.
func (f *KubeconfigFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, FlagKubeconfig, "", "Path of the kubeconfig of the member (default with --cluster-context: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, FlagContext, "", "Context of the member in that kubeconfig (default: its current context)")
}

// Given reports whether the user has named a member.
func (f *KubeconfigFlags) Given() bool { return f.kubeconfig != "" || f.context != "" }

// DescribeFlags returns the flags as the user would type them again, or what to type.
func (f *KubeconfigFlags) DescribeFlags() string {
	text := ""
	if f.kubeconfig != "" {
		text += " --" + FlagKubeconfig + " " + f.kubeconfig
	}
	if f.context != "" {
		text += " --" + FlagContext + " " + f.context
	}
	if text == "" {
		return "--" + FlagKubeconfig + " FILE"
	}
	return text[1:]
}

// ListContexts returns the names of the contexts of the kubeconfig, sorted.
func (f *KubeconfigFlags) ListContexts() []string { return f.newAccess(io.Discard).ListContexts() }

func (f *KubeconfigFlags) newAccess(errOut io.Writer) *access.ClusterAccess {
	return access.NewClusterAccess(memberMessageWords(), &genericclioptions.ConfigFlags{KubeConfig: &f.kubeconfig, Context: &f.context}, errOut)
}

// memberMessageWords are what messages say about a member.
func memberMessageWords() access.MessageWords {
	return access.MessageWords{
		Cluster: "the member", Kubeconfig: "--" + FlagKubeconfig, Context: "--" + FlagContext,
		Missing:  "Give the kubeconfig of the member with --cluster-kubeconfig FILE.",
		Slow:     "See whether the member is well, and try again.",
		Webhooks: "A webhook in the member does not answer: look at its webhook configurations, and at the pods behind them.",
		Code:     exit.NoMember,
	}
}

// Member is a cluster that a kubeconfig leads to.
type Member struct {
	*access.ClusterAccess
	// Config is how to reach it from here.
	Config *rest.Config
	// Client knows the kinds that Capstan installs in a member, and finds out
	// about others.
	Client client.WithWatch
}

// ConnectMember returns the member that the flags lead to. It does not send a request
// yet. Without flags there is an error: a member is never guessed. Warnings of
// its API server go to errOut.
func (f *KubeconfigFlags) ConnectMember(errOut io.Writer) (*Member, error) {
	if !f.Given() {
		return nil, exit.UsageError("it is not said which cluster is the member: give --%s, --%s or both", FlagKubeconfig, FlagContext)
	}
	return newMember(f.newAccess(errOut))
}

// InUse returns the member that the kubeconfig in use leads to, as which a
// command takes it whose hub is given otherwise.
func InUse(flags *genericclioptions.ConfigFlags, errOut io.Writer) (*Member, error) {
	said := memberMessageWords()
	said.Kubeconfig = "--kubeconfig"
	said.Context = "--context"
	said.Server = "--server"
	said.Missing = "Give the kubeconfig of the member with --kubeconfig FILE or $KUBECONFIG; the default is ~/.kube/config."
	return newMember(access.NewClusterAccess(said, flags, errOut))
}

func newMember(a *access.ClusterAccess) (*Member, error) {
	m := &Member{ClusterAccess: a}
	var err error
	if m.Config, err = m.LoadRESTConfig(); err != nil {
		return nil, err
	}
	m.Config.Timeout = requestTimeout
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if m.Client, err = client.NewWithWatch(m.Config, client.Options{Scheme: scheme}); err != nil {
		return nil, m.ExplainError(fmt.Errorf("prepare the connection to %s: %w", m.DescribeTarget(), err))
	}
	return m, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	err := errors.Join(
		authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		operatorv1.AddToScheme(scheme), workv1.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	return scheme, nil
}

// Identity is who a cluster is.
type Identity struct {
	// UID is that of its namespace kube-system, which no two clusters share.
	UID string
	// Version is that of its API server, such as v1.36.3.
	Version string
}

// Identify asks the member who it is. Its errors have the next step.
func (m *Member) Identify(ctx context.Context) (Identity, error) {
	system := &corev1.Namespace{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return Identity{}, m.ExplainError(fmt.Errorf("find out which cluster %s is: %w", m.DescribeTarget(), err))
	}
	found, err := discovery.NewDiscoveryClientForConfig(m.Config)
	if err != nil {
		return Identity{}, fmt.Errorf("prepare the connection to %s: %w", m.DescribeTarget(), err)
	}
	version, err := found.ServerVersion()
	if err != nil {
		return Identity{}, m.ExplainError(fmt.Errorf("find out the version of %s: %w", m.DescribeTarget(), err))
	}
	return Identity{UID: string(system.UID), Version: version.GitVersion}, nil
}
