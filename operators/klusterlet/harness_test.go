// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
)

const (
	agentNamespace    = "open-cluster-management-agent"
	operatorNamespace = "open-cluster-management"
	// operatorUser is who the fence is for.
	operatorUser = "system:serviceaccount:open-cluster-management:klusterlet"

	// establishPatience is how long a test waits until the API server serves a kind.
	establishPatience = time.Minute
)

// harness is an operator on a member with a real API server, which is the hub,
// too. The operator has its own role and nothing more.
type harness struct {
	t testing.TB
	// admin is the client of the cluster's administrator.
	admin    client.Client
	env      *envtest.Environment
	config   *rest.Config
	c        *Controller
	probe    *hubprobe.Controller
	results  *hubprobe.ResultStore
	changed  chan event.TypedGenericEvent[*operatorv1.Klusterlet]
	recorder *events.FakeRecorder
	clock    *clocktesting.FakeClock
}

// operators are operators with their own role, for tests that need a fresh Klusterlet only.
var operators = env.NewFixtures(servers, start)

// takeOperator returns an operator that cleans up when the test ends.
func takeOperator(t *testing.T) *harness {
	t.Helper()
	h := *operators.TakeFixture(t)
	h.t = t
	h.clock.SetTime(time.Now()) // that of the API server
	env.WhenDone(t, func(t testing.TB) {
		done := h
		done.t = t
		done.clean()
	})
	return &h
}

func start(t testing.TB) *harness {
	t.Helper()
	rules, _, err := config.Rules(config.Klusterlet)
	expect.NoError(t, err)
	return startGranted(t, rules)
}

// startGranted is start of an operator that has been given another role.
func startGranted(t testing.TB, granted []rbacv1.PolicyRule) *harness {
	t.Helper()
	environment, config := servers.Start(t, func(e *envtest.Environment) {
		e.CRDInstallOptions.Paths = []string{"../../config/crd/operator.open-cluster-management.io_klusterlets.yaml"}
	})
	h := &harness{
		t: t, env: environment, config: config, results: hubprobe.NewResultStore(), recorder: events.NewFakeRecorder(100),
		changed: make(chan event.TypedGenericEvent[*operatorv1.Klusterlet], 100),
		clock:   clocktesting.NewFakeClock(time.Now()),
	}
	h.admin = h.client(config)
	h.grant(operatorUser, granted)
	user, err := environment.AddUser(envtest.User{Name: operatorUser}, config)
	expect.NoError(t, err)
	restricted := h.client(user.Config())
	rules, err := LoadAgentRules()
	expect.NoError(t, err)
	h.c = NewKlusterletController(ControllerDeps{
		Client: restricted, Live: restricted, Secrets: restricted, Results: h.results, Rules: rules,
		Events: h.recorder, Clock: h.clock,
		Settings: OperatorSettings{
			Namespace: operatorNamespace, Image: "capstan:test", Version: "1.2.3", PullSecret: operatorv1.ImagePullSecret,
			ControlPlaneSelector: "node-role.kubernetes.io/control-plane",
		},
	})
	h.probe = hubprobe.NewHubProbeController(hubprobe.ControllerDeps{
		Client: restricted, Secrets: restricted, Results: h.results, Clock: h.clock, Changed: h.changed,
	})
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}})
	return h
}

func (h *harness) client(config *rest.Config) client.Client {
	h.t.Helper()
	return cluster.NewClient(h.t, config, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme)
}

// grant allows the user what the rules say, on the hub as on the member, until
// the test ends.
func (h *harness) grant(user string, rules []rbacv1.PolicyRule) {
	h.t.Helper()
	role, binding := build.ClusterRole(user, rules...), build.ClusterRoleBinding(user, user, build.UserSubject(user))
	h.create(role)
	h.create(binding)
	env.WaitAllowed(h.t.Context(), h.t, h.config, env.UserReview(user), "", rules[0], true)
	env.WhenDone(h.t, func(t testing.TB) {
		t.Helper()
		if err := errors.Join(h.admin.Delete(t.Context(), binding), h.admin.Delete(t.Context(), role)); err != nil {
			t.Error(err)
		}
		env.WaitAllowed(t.Context(), t, h.config, env.UserReview(user), "", rules[0], false)
	})
}

func (h *harness) create(object client.Object) {
	h.t.Helper()
	if err := h.admin.Create(h.t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		h.t.Fatal(err)
	}
}

// klusterlet creates a Klusterlet, changed by the functions.
func (h *harness) klusterlet(name string, change ...func(*operatorv1.Klusterlet)) {
	h.t.Helper()
	klusterlet := &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	klusterlet.Spec.ClusterName = "cluster1"
	for _, f := range change {
		f(klusterlet)
	}
	h.create(klusterlet)
}

func (h *harness) update(name string, change func(*operatorv1.Klusterlet)) {
	h.t.Helper()
	klusterlet := h.get(name)
	change(klusterlet)
	expect.NoError(h.t, h.admin.Update(h.t.Context(), klusterlet))
}

func (h *harness) get(name string) *operatorv1.Klusterlet {
	h.t.Helper()
	klusterlet := &operatorv1.Klusterlet{}
	expect.NoError(h.t, h.admin.Get(h.t.Context(), types.NamespacedName{Name: name}, klusterlet))
	return klusterlet
}

// reconcile runs one pass and fails the test if it does.
func (h *harness) reconcile(name string) ctrl.Result {
	h.t.Helper()
	result, err := h.c.Reconcile(h.t.Context(), h.get(name))
	if err != nil {
		h.t.Fatalf("Reconcile(%q): %v", name, err)
	}
	return result
}

// refuse runs one pass and fails the test unless it ends with an error that is
// not worth another attempt.
func (h *harness) refuse(name string) {
	h.t.Helper()
	if _, err := h.c.Reconcile(h.t.Context(), h.get(name)); !errors.Is(err, reconcile.TerminalError(nil)) {
		h.t.Fatalf("Reconcile(%q): got error %v, want a terminal one", name, err)
	}
}

// ask asks the hub and runs a pass if that changed something.
func (h *harness) ask(name string) {
	h.t.Helper()
	if _, err := h.probe.Reconcile(h.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		h.t.Fatalf("asking the hub of %q: %v", name, err)
	}
	select {
	case <-h.changed:
		h.reconcile(name)
	default:
	}
}

// expect compares status and reason of a condition.
func (h *harness) expect(name, conditionType string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	h.t.Helper()
	klusterlet := h.get(name)
	return expect.Condition(h.t, klusterlet.Status.Conditions, klusterlet.Generation, metav1.Condition{Type: conditionType, Status: status, Reason: reason})
}

func (h *harness) exists(object client.Object, namespace, name string) bool {
	h.t.Helper()
	return cluster.ObjectExists(h.t, h.admin, object, namespace, name) && object.GetDeletionTimestamp().IsZero()
}

func (h *harness) deployment(namespace, name string) *appsv1.Deployment {
	h.t.Helper()
	deployment := &appsv1.Deployment{}
	if !h.exists(deployment, namespace, name) {
		h.t.Fatalf("Deployment %s/%s is missing", namespace, name)
	}
	return deployment
}

// available says in the status of a Deployment that all its pods are.
func (h *harness) available(namespace, name string) {
	h.t.Helper()
	expect.NoError(h.t, cluster.RollOutDeployment(h.t.Context(), h.admin, h.deployment(namespace, name)))
}

// kubeconfig returns a kubeconfig of the hub for the user, changed by the functions.
func (h *harness) kubeconfig(user string, change ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	h.t.Helper()
	return cluster.UserKubeconfig(h.t, h.env, user, change...)
}

// secret writes a secret, whether it is there or not.
func (h *harness) secret(namespace, name string, data map[string][]byte) {
	h.t.Helper()
	cluster.PutObject(h.t, h.admin, build.Secret(namespace, name, data))
}

// hubRules are what the hub allows an accepted cluster.
func hubRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		build.AccessRule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list", "watch"),
		build.AccessRule("cluster.open-cluster-management.io", "managedclusters", "get", "list", "update", "watch"),
		build.AccessRule("cluster.open-cluster-management.io", "managedclusters/status", "patch", "update"),
		build.AccessRule("register.open-cluster-management.io", "managedclusters/clientcertificates", "renew"),
		build.AccessRule("coordination.k8s.io", "leases", "get", "list", "watch", "update"),
		build.AccessRule("", "events", "create", "patch", "update"),
		build.AccessRule("events.k8s.io", "events", "create", "patch", "update"),
		build.AccessRule("work.open-cluster-management.io", "manifestworks", "get", "list", "watch", "update", "patch"),
		build.AccessRule("work.open-cluster-management.io", "manifestworks/status", "patch", "update"),
	}
}

// bootstrapRules are what the hub allows who wants to join.
func bootstrapRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}},
	}
}
