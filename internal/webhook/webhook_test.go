// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/propagation"
	"github.com/capstan-io/capstan/internal/webhook/serving"
	"github.com/capstan-io/capstan/internal/webhook/work"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// now is what the webhooks take for the time.
func now() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

// TestInstalledWebhooks has one API server whose webhooks are served as the
// commands serve them; each part of it is about one kind.
func TestInstalledWebhooks(t *testing.T) {
	admin, config, count := start(t)
	as := func(t *testing.T, name string) client.Client {
		t.Helper()
		c := rest.CopyConfig(config)
		c.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
		return newClient(t, c)
	}
	// registrar may write all kinds, and has none of the special permissions.
	allow(t, config, admin, "registrar", []rbacv1.PolicyRule{
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters", "managedclustersetbindings"}, Verbs: []string{"create", "update", "get", "delete"}},
		{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks", "manifestworkreplicasets"}, Verbs: []string{"create", "update", "get"}},
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, ResourceNames: []string{"default"}, Verbs: []string{"create"}},
	})
	// acceptor may accept one cluster besides.
	allow(t, config, admin, "acceptor", []rbacv1.PolicyRule{
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"update", "get"}},
		{APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, ResourceNames: []string{"accepted"}, Verbs: []string{"update"}},
	})
	t.Run("ManagedCluster", func(t *testing.T) { testClusters(t, admin, as(t, "registrar"), as(t, "acceptor")) })
	allow(t, config, admin, bootstrapUser, bootstrapRules())
	t.Run("Flood", func(t *testing.T) { testFlood(t, admin, as(t, bootstrapUser), as(t, "registrar")) })
	t.Run("Flood of requests", func(t *testing.T) { testRequestFlood(t, admin, config, count) })
	t.Run("ManagedClusterSetBinding", func(t *testing.T) { testBindings(t, admin, as(t, "registrar")) })
	t.Run("ManifestWork", func(t *testing.T) { testWorks(t, admin, as(t, "registrar")) })
	allow(t, config, admin, workController, []rbacv1.PolicyRule{
		{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"create"}},
	})
	t.Run("ManifestWorkReplicaSet", func(t *testing.T) { testReplicaSets(t, admin, as(t, "registrar")) })
	t.Run("Texts that clients compare", func(t *testing.T) { testComparedTexts(t, config) })
	t.Run("Exempt", func(t *testing.T) { testExempt(t, count, as(t, workController), as(t, "registrar")) })
	t.Run("Calls", func(t *testing.T) { testCalls(t, admin, count) })
	t.Run("Propagation", func(t *testing.T) { testPropagation(t, config, count) })
}

func testClusters(t *testing.T, admin, registrar, acceptor client.Client) {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "accepted", Labels: map[string]string{"env": "prod"}}}
	c.Spec.Taints = []clusterv1.Taint{{Key: "k", Effect: clusterv1.TaintEffectNoSelect}}
	if err := registrar.Create(t.Context(), c); err != nil {
		t.Fatalf("registering a cluster: %v", err)
	}
	if !maps.Equal(c.Labels, map[string]string{"env": "prod", clusterv1.LabelClusterSet: clusterv1.DefaultClusterSet}) || len(c.Finalizers) != 0 {
		t.Errorf("got labels %v and finalizers %v, want those that were sent, the default set, and no finalizer before acceptance", c.Labels, c.Finalizers)
	}
	wantTaints := []clusterv1.Taint{
		{Key: "k", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(now())},
		{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(now())},
	}
	if diff := cmp.Diff(wantTaints, c.Spec.Taints); diff != "" {
		t.Errorf("the taints of a cluster that nobody heard of yet (-want +got):\n%s", diff)
	}
	c.Spec.HubAcceptsClient = true
	refused(t, registrar.Update(t.Context(), c.DeepCopy()), apierrors.IsForbidden, `user "registrar" may not update managedclusters/accept`)
	if err := acceptor.Update(t.Context(), c); err != nil {
		t.Fatalf("accepting the cluster: %v", err)
	}
	if !slices.Contains(c.Finalizers, clusterv1.FinalizerAPIResourceCleanup) {
		t.Errorf("got finalizers %v after acceptance, want %s", c.Finalizers, clusterv1.FinalizerAPIResourceCleanup)
	}
	c.Spec.HubAcceptsClient = false
	if err := registrar.Update(t.Context(), c); err != nil {
		t.Errorf("refusing the cluster needs no permission, but: %v", err)
	}
	c.Labels[clusterv1.LabelClusterSet] = "other"
	refused(t, registrar.Update(t.Context(), c.DeepCopy()), apierrors.IsForbidden, `create managedclustersets/join.cluster.open-cluster-management.io "other"`)
	if err := admin.Update(t.Context(), c); err != nil {
		t.Errorf("moving the cluster to another set as administrator: %v", err)
	}
	refused(t, registrar.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}),
		apierrors.IsBadRequest, "is reserved")
	refused(t, registrar.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}}),
		apierrors.IsBadRequest, "is not a valid name for its namespace")
	insecure := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "insecure"}}
	insecure.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "http://x"}}
	refused(t, registrar.Create(t.Context(), insecure), apierrors.IsBadRequest, `url "http://x" is invalid in client configs`)
	// Everything about a cluster must still work while it goes away.
	if err := registrar.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	c.Finalizers = nil
	if err := registrar.Update(t.Context(), c); err != nil {
		t.Errorf("removing the finalizers of a deleted cluster: %v", err)
	}
}

func testBindings(t *testing.T, admin, registrar client.Client) {
	binding := func(name, set string) *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
		}
	}
	refused(t, admin.Create(t.Context(), binding("a", "b")), apierrors.IsBadRequest, `named "a" but binds the set "b"`)
	refused(t, registrar.Create(t.Context(), binding("a", "a")), apierrors.IsForbidden, `create managedclustersets/bind.cluster.open-cluster-management.io "a"`)
	bound := binding("a", "a")
	if err := admin.Create(t.Context(), bound); err != nil {
		t.Fatalf("binding a set as administrator: %v", err)
	}
	bound.Labels = map[string]string{"a": "b"}
	if err := registrar.Update(t.Context(), bound); err != nil {
		t.Errorf("labelling a binding needs no permission, but: %v", err)
	}
}

func testWorks(t *testing.T, admin, registrar client.Client) {
	manifest := func(name string, bytes int) workv1.Manifest {
		raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},"data":{"x":%q}}`, name, strings.Repeat("x", bytes))
		return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}
	}
	newWork := func(namespace, name string, manifests ...workv1.Manifest) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		w.Spec.Workload.Manifests = manifests
		return w
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{clusterv1.LabelClusterName: "c1"}}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := newWork("c1", "w", manifest("a", 1))
	if err := registrar.Create(t.Context(), w); err != nil {
		t.Fatalf("creating a work: %v", err)
	}
	if !slices.Contains(w.Finalizers, workv1.FinalizerManifestWorkCleanup) {
		t.Errorf("got finalizers %v, want %s", w.Finalizers, workv1.FinalizerManifestWorkCleanup)
	}
	elsewhere := newWork("default", "w", manifest("a", 1))
	if err := registrar.Create(t.Context(), elsewhere); err != nil || len(elsewhere.Finalizers) != 0 {
		t.Errorf("got %v and finalizers %v, want none in a namespace of no cluster, where nobody takes them off", err, elsewhere.Finalizers)
	}
	refused(t, registrar.Create(t.Context(), newWork("c1", "big", manifest("a", 600<<10))), apierrors.IsBadRequest, "exceeds the 512000 limit")
	refused(t, registrar.Create(t.Context(), newWork("c1", "empty")), apierrors.IsBadRequest, "spec.workload.manifests is empty")
	refused(t, registrar.Create(t.Context(), newWork("c1", "twice", manifest("a", 1), manifest("a", 2))), apierrors.IsBadRequest, "is already in manifests[0]")
	w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ns", Name: "sa"},
	}}
	refused(t, registrar.Update(t.Context(), w.DeepCopy()), apierrors.IsForbidden, `may not execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount:ns:sa" in namespace "c1"`)
	if err := admin.Update(t.Context(), w); err != nil {
		t.Errorf("naming an executor as administrator: %v", err)
	}
	w.Finalizers = nil
	if err := registrar.Update(t.Context(), w); err != nil {
		t.Errorf("removing the finalizers of needs no permission, but: %v", err)
	}
}

// refused fails the test unless the error is of the kind and has the part.
func refused(t *testing.T, err error, kind func(error) bool, part string) {
	t.Helper()
	if err == nil || !kind(err) || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v (%s), want a refusal with %q", err, apierrors.ReasonForError(err), part)
	}
}

// start starts an API server with the webhooks and returns its administrator
// and a count of the calls.
func start(t *testing.T) (client.Client, *rest.Config, *calls) {
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
	return newClient(t, config), config, count
}

// serve serves the handlers until the test ends.
func serve(t *testing.T, environment *envtest.Environment, config *rest.Config, handlers map[string]http.Handler) {
	t.Helper()
	install := environment.WebhookInstallOptions
	server := options.DefaultServer()
	server.HealthProbePort, server.MetricsPort = freePort(t), 0
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
	answers(t, ready, http.StatusOK)
	t.Cleanup(func() {
		stop()
		// It is not ready any more but still serves, until the delay is over.
		answersUntilDone(t, ready, http.StatusInternalServerError)
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

func answers(t *testing.T, url string, status int) { t.Helper(); poll(t, t.Context(), url, status) }

// answersUntilDone is for a test that is over, whose context has ended.
func answersUntilDone(t *testing.T, url string, status int) {
	t.Helper()
	poll(t, context.WithoutCancel(t.Context()), url, status)
}

func poll(t *testing.T, ctx context.Context, url string, status int) {
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

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, clusterv1beta2.AddToScheme, workv1.AddToScheme, workv1alpha1.AddToScheme, configv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allow gives the user the rights, for everything.
func allow(t *testing.T, restConfig *rest.Config, admin client.Client, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	env.WaitAllowed(t.Context(), t, restConfig, authorizationv1.SubjectAccessReviewSpec{User: user}, "", rules[0], true)
}

// installed returns the configurations as the operator installs them.
func installed(t *testing.T) (m []*admissionregistrationv1.MutatingWebhookConfiguration, v []*admissionregistrationv1.ValidatingWebhookConfiguration) {
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

func freePort(t *testing.T) int {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}
