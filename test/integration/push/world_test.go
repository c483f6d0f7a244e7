// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package push lets clusters join and leave by the command line, on a hub with
// its real controllers and push agent.
package push

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	hubNamespace = "open-cluster-management-hub"
	// patience is how long a test waits for what should take seconds.
	patience = 2 * time.Minute
)

// side is an API server, its administrator, and the kubeconfig of that.
type side struct {
	config     *rest.Config
	client     client.Client
	kubeconfig string
}

func newSide(t testing.TB, options ...func(*envtest.Environment)) *side {
	t.Helper()
	environment, config := servers.Start(t, options...)
	c := cluster.NewClient(t, config, clusterv1.AddToScheme, workv1.AddToScheme, fleetv1alpha1.AddToScheme, operatorv1.AddToScheme)
	s := &side{config: config, client: c, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	expect.NoError(t, os.WriteFile(s.kubeconfig, environment.KubeConfig, 0o600))
	return s
}

// world is a hub at work and a member that is nothing but a cluster.
type world struct{ hub, member *side }

// worlds have a member that has joined no hub, and has not when a test ends.
var worlds = env.NewFixtures(servers, func(t testing.TB) *world {
	t.Helper()
	return newWorld(t)
})

func newWorld(t testing.TB, options ...func(*registration.SetupOptions)) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	w := &world{
		hub:    newSide(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} }),
		member: newSide(t),
	}
	// The operator makes this role; the hub does not hold what is in it.
	credentials := build.AccessRule("", "secrets", "get", "list", "watch")
	credentials.ResourceNames = []string{fleetv1alpha1.DefaultSecretName}
	cluster.CreateObjects(t, w.hub.client,
		&operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}}, build.ClusterRole(fleetv1alpha1.PushCredentialsRole, credentials))
	w.controllers(t, options)
	w.agent(t)
	return w
}

// as returns the hub's configuration for a component, which gets its generated
// role and nothing else.
func (w *world) as(t testing.TB, component, account string) *rest.Config {
	t.Helper()
	rules, _, err := config.Rules(component)
	expect.NoError(t, err)
	cluster.CreateObjects(t, w.hub.client,
		build.ClusterRole(component, rules...), build.ClusterRoleBinding(component, component, build.AccountSubject(hubNamespace, account)))
	who := env.ServiceAccountReview(hubNamespace, account)
	env.WaitAllowed(t.Context(), t, w.hub.config, who, "", rules[0], true)
	return cluster.AsUser(w.hub.config, who.User, append(who.Groups, "system:authenticated")...)
}

// controllers runs the registration controllers of the hub until the test ends.
func (w *world) controllers(t testing.TB, options []func(*registration.SetupOptions)) {
	t.Helper()
	scheme, err := registration.NewRegistrationScheme()
	expect.NoError(t, err)
	cached, err := registration.NewRegistrationCacheOptions()
	expect.NoError(t, err)
	manager := cluster.NewManager(t, w.as(t, config.RegistrationController, "registration-controller-sa"), ctrl.Options{Scheme: scheme, Cache: cached})
	gates, _ := features.ResolveGates(features.HubRegistration, nil)
	o := registration.SetupOptions{Gates: gates, OwnNamespace: hubNamespace}
	for _, set := range options {
		set(&o)
	}
	expect.NoError(t, registration.SetupRegistrationControllers(t.Context(), manager, o))
	cluster.RunManager(t, manager)
}

// agent runs the push agent until the test ends. It may dial this machine.
func (w *world) agent(t testing.TB) {
	t.Helper()
	works, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	expect.NoError(t, err)
	agent, err := push.NewAgent(push.AgentOptions{
		Hub: w.as(t, config.PushAgent, fleetv1alpha1.PushAgentServiceAccount), HubURL: w.hub.config.Host, Log: logr.Discard(),
		Guard:      dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20}, Parts: []fleet.Part{works},
	})
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	run(t, cancel, "works", func() error { return works.Start(ctx) })
	run(t, cancel, "push agent", func() error { return agent.RunSessions(ctx) })
}

func run(t testing.TB, cancel context.CancelFunc, what string, do func() error) {
	t.Helper()
	var running sync.WaitGroup
	running.Go(func() {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// capstan runs one command and returns its exit code and what it prints.
func (w *world) capstan(ctx context.Context, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	code = cli.RunCommandLine(ctx, cli.CommandLine{
		As: "capstan", Args: append(args, "--kubeconfig", w.hub.kubeconfig),
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}, Clock: clock.RealClock{},
	})
	return code, stdout.String(), stderr.String()
}

// join is a join as a user types it.
func (w *world) join(name string, more ...string) []string {
	return append([]string{"join", name, "--cluster-kubeconfig", w.member.kubeconfig}, more...)
}

// want runs a command and fails the test if it ends with another exit code, or
// does not print the lines on standard output, or the text on standard error.
func (w *world) want(t testing.TB, code int, stdout, stderr string, args ...string) {
	t.Helper()
	got, out, errOut := w.capstan(t.Context(), args...)
	if got != code || !strings.Contains(out, stdout) || !strings.Contains(errOut, stderr) {
		t.Fatalf("capstan %s: exit code %d, want %d with %q and %q; it printed\n%s%s", strings.Join(args, " "), got, code, stdout, stderr, out, errOut)
	}
}

// delivers has a ClusterRole delivered to the cluster, and waits for it.
func (w *world) delivers(t testing.TB, of, name string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q}}`, name)
	cluster.CreateObjects(t, w.hub.client, build.ManifestWork(of, name, manifest))
	expect.NothingWrong(t, patience, "work "+name+" is delivered", func() string {
		if err := w.member.client.Get(t.Context(), client.ObjectKey{Name: name}, &rbacv1.ClusterRole{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
