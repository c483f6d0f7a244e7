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
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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
	"github.com/capstan-io/capstan/internal/testing/env"
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

func newSide(t *testing.T, options ...func(*envtest.Environment)) *side {
	t.Helper()
	environment, config := servers.Start(t, options...)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, workv1.AddToScheme, fleetv1alpha1.AddToScheme, operatorv1.AddToScheme,
	} {
		must(t, add(scheme))
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	s := &side{config: config, client: c, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	must(t, os.WriteFile(s.kubeconfig, environment.KubeConfig, 0o600))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a hub at work and a member that is nothing but a cluster.
type world struct{ hub, member *side }

func newWorld(t *testing.T, options ...func(*registration.SetupOptions)) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	w := &world{
		hub:    newSide(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} }),
		member: newSide(t),
	}
	must(t, w.hub.client.Create(t.Context(), &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}}))
	// The operator makes this role; the hub does not hold what is in it.
	must(t, w.hub.client.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.PushCredentialsRole},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fleetv1alpha1.DefaultSecretName},
			Verbs: []string{"get", "list", "watch"},
		}},
	}))
	w.controllers(t, options)
	w.agent(t)
	return w
}

// as returns the hub's configuration for a component, which gets its generated
// role and nothing else.
func (w *world) as(t *testing.T, component, account string) *rest.Config {
	t.Helper()
	rules, _, err := config.Rules(component)
	must(t, err)
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: hubNamespace, Name: account}
	meta := metav1.ObjectMeta{Name: component}
	must(t, w.hub.client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}))
	must(t, w.hub.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: component},
	}))
	who := env.ServiceAccountReview(hubNamespace, account)
	env.WaitAllowed(t.Context(), t, w.hub.config, authorizationv1.SubjectAccessReviewSpec{User: who.User, Groups: who.Groups}, "", rules[0], true)
	as := rest.CopyConfig(w.hub.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: who.User, Groups: append(who.Groups, "system:authenticated")}
	return as
}

// controllers runs the registration controllers of the hub until the test ends.
func (w *world) controllers(t *testing.T, options []func(*registration.SetupOptions)) {
	t.Helper()
	scheme, err := registration.NewRegistrationScheme()
	must(t, err)
	cached, err := registration.NewRegistrationCacheOptions()
	must(t, err)
	manager, err := ctrl.NewManager(w.as(t, config.RegistrationController, "registration-controller-sa"), ctrl.Options{
		Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // each test has a hub
	})
	must(t, err)
	gates, _ := features.ResolveGates(features.HubRegistration, nil)
	o := registration.SetupOptions{Gates: gates, OwnNamespace: hubNamespace}
	for _, set := range options {
		set(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	must(t, registration.SetupRegistrationControllers(ctx, manager, o))
	run(t, cancel, "controllers", func() error { return manager.Start(ctx) })
}

// agent runs the push agent until the test ends. It may dial this machine.
func (w *world) agent(t *testing.T) {
	t.Helper()
	works, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	must(t, err)
	agent, err := push.NewAgent(push.AgentOptions{
		Hub: w.as(t, config.PushAgent, fleetv1alpha1.PushAgentServiceAccount), HubURL: w.hub.config.Host, Log: logr.Discard(),
		Guard:      dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20}, Parts: []fleet.Part{works},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	run(t, cancel, "works", func() error { return works.Start(ctx) })
	run(t, cancel, "push agent", func() error { return agent.RunSessions(ctx) })
}

func run(t *testing.T, cancel context.CancelFunc, what string, do func() error) {
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
func (w *world) want(t *testing.T, code int, stdout, stderr string, args ...string) {
	t.Helper()
	got, out, errOut := w.capstan(t.Context(), args...)
	if got != code || !strings.Contains(out, stdout) || !strings.Contains(errOut, stderr) {
		t.Fatalf("capstan %s: exit code %d, want %d with %q and %q; it printed\n%s%s", strings.Join(args, " "), got, code, stdout, stderr, out, errOut)
	}
}

// eventually waits until the function returns nothing more to wait for.
func eventually(t *testing.T, what string, missing func(context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		last := missing(ctx)
		if last == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s: %s", what, last)
		case <-tick.C:
		}
	}
}

// delivers has a ClusterRole delivered to the cluster, and waits for it.
func (w *world) delivers(t *testing.T, cluster, name string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q}}`, name)
	must(t, w.hub.client.Create(t.Context(), &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}},
		}},
	}))
	eventually(t, "work "+name+" is delivered", func(ctx context.Context) string {
		if err := w.member.client.Get(ctx, client.ObjectKey{Name: name}, &rbacv1.ClusterRole{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
