// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/options"
	testcluster "github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/ports"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/propagation"
	"github.com/capstan-io/capstan/internal/webhook/serving"
	"github.com/capstan-io/capstan/internal/webhook/work"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// now is what the webhooks take for the time.
func now() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

// installedHub is an API server whose webhooks are served as the commands serve them.
type installedHub struct {
	admin  client.Client
	config *rest.Config
	count  *calls
}

var (
	// servers end the hub once all tests have run.
	servers = env.NewServers()

	// installedHubs are one hub for all tests: each has objects of its own.
	installedHubs = env.NewFixtures(servers, startInstalledHub)
)

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

// startInstalledHub starts an API server with the webhooks, and users with few rights.
func startInstalledHub(t testing.TB) *installedHub {
	t.Helper()
	environment, config := env.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = append([]string{"../../config/crd"}, sampleDefinitions()...)
		e.WebhookInstallOptions.MutatingWebhooks, e.WebhookInstallOptions.ValidatingWebhooks = installed(t)
	})
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	handlers, err := cluster.WebhookHandlers(t.Context(), cluster.WebhookOptions{
		Clients: clients, Metadata: clusters, Clock: clocktesting.NewFakePassiveClock(now()), DefaultSet: true, MaxUnaccepted: maxUnaccepted,
	})
	if err != nil {
		t.Fatal(err)
	}
	works, err := work.WebhookHandlers(work.WebhookOptions{Clients: clients, ManifestsSizeMax: workv1.ManifestsSizeMax})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(handlers, works)
	policies, err := propagation.WebhookHandlers(propagation.WebhookOptions{
		Clients: clients, Authorize: true, Customizations: propagation.NewCustomizationReader(clients.Discovery().RESTClient()),
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(handlers, policies)
	count := &calls{}
	serve(t, environment, config, count.of(handlers))
	h := &installedHub{admin: newClient(t, config), config: config, count: count}
	for user, rules := range userRules() {
		testcluster.GrantUser(t, h.admin, config, user, rules...)
	}
	return h
}

// userRules are the rights of users: the registrar may write all kinds, and has none of the special permissions;
// the acceptor may accept one cluster besides; an author may write policies, and list Deployments.
func userRules() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"registrar": {
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters", "managedclustersetbindings"}, Verbs: []string{"create", "update", "get", "delete"}},
			{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks", "manifestworkreplicasets"}, Verbs: []string{"create", "update", "get"}},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, ResourceNames: []string{"default"}, Verbs: []string{"create"}},
		},
		"acceptor": {
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"update", "get"}},
			{APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, ResourceNames: []string{"accepted"}, Verbs: []string{"update"}},
		},
		bootstrapUser: bootstrapRules(),
		workController: {
			{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"create"}},
		},
		"author": {
			{APIGroups: []string{policyv1alpha1.GroupName}, Resources: []string{"propagationpolicies"}, Verbs: []string{"create", "update"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list"}},
		},
	}
}

// userClient is a client of a user, who is in no other group than that of all users if none is given.
func (h *installedHub) userClient(t testing.TB, name string, groups ...string) client.Client {
	t.Helper()
	if len(groups) == 0 {
		groups = []string{"system:authenticated"}
	}
	c := rest.CopyConfig(h.config)
	c.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return newClient(t, c)
}

// warnedAdmin is a client of the administrator who keeps warnings.
func (h *installedHub) warnedAdmin(t testing.TB, warnings *warned) client.Client {
	t.Helper()
	c := rest.CopyConfig(h.config)
	c.WarningHandler = warnings
	return newClient(t, c)
}

// serve serves the handlers until the test ends.
func serve(t testing.TB, environment *envtest.Environment, config *rest.Config, handlers map[string]http.Handler) {
	t.Helper()
	install := environment.WebhookInstallOptions
	server := options.DefaultServer()
	server.HealthProbePort, server.MetricsPort = ports.FreePort(t), 0
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	shortly := clocktesting.NewFakeClock(now())
	go func() {
		defer stop()
		stopped <- serving.RunWebhookServer(ctx, serving.ServerOptions{
			Component: "test", Handlers: handlers, Config: config, Clock: shortly, Server: server,
			Port: install.LocalServingPort, CertDir: install.LocalServingCertDir,
		})
	}()
	ready := fmt.Sprintf("http://127.0.0.1:%d/readyz", server.HealthProbePort)
	poll(t, t.Context(), ready, http.StatusOK)
	t.Cleanup(func() {
		stop()
		// It is not ready any more but still serves, until the delay is over.
		poll(t, context.WithoutCancel(t.Context()), ready, http.StatusInternalServerError)
		for !shortly.HasWaiters() {
			select {
			case err := <-stopped:
				t.Fatalf("stopped without the delay: %v", err)
			default:
			}
		}
		shortly.Step(serving.ShutdownDelay)
		if err := <-stopped; err != nil {
			t.Errorf("serving webhooks: %v", err)
		}
	})
}

func poll(t testing.TB, ctx context.Context, url string, status int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil // it does not listen yet
		}
		return response.StatusCode == status, response.Body.Close()
	})
	if err != nil {
		t.Errorf("waiting for %s to answer %d: %v", url, status, err)
	}
}

func newClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	return testcluster.NewClient(t, config, clusterv1.AddToScheme, clusterv1beta2.AddToScheme, workv1.AddToScheme, workv1alpha1.AddToScheme,
		configv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, workv1alpha2.AddToScheme)
}

// installed returns the configurations as the operator installs them.
func installed(t testing.TB) (m []*admissionregistrationv1.MutatingWebhookConfiguration, v []*admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	into := func(object, target any) {
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, target); err != nil {
			t.Fatal(err)
		}
	}
	gates, _ := features.ResolveGates(features.HubPlacement, map[string]bool{string(features.Propagation): true})
	for _, object := range manifests.WebhookConfigurations(manifests.Hub{Name: "hub", Placement: gates}) {
		switch object.(type) {
		case *admissionv1ac.MutatingWebhookConfigurationApplyConfiguration:
			m = append(m, &admissionregistrationv1.MutatingWebhookConfiguration{})
			into(object, m[len(m)-1])
		case *admissionv1ac.ValidatingWebhookConfigurationApplyConfiguration:
			v = append(v, &admissionregistrationv1.ValidatingWebhookConfiguration{})
			into(object, v[len(v)-1])
		default:
			t.Fatalf("a webhook configuration of type %T", object)
		}
	}
	return m, v
}
