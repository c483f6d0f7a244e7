// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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
	"github.com/capstan-io/capstan/internal/testing/env"
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
	t *testing.T
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

func start(t *testing.T) *harness {
	t.Helper()
	rules, _, err := config.Rules(config.Klusterlet)
	if err != nil {
		t.Fatal(err)
	}
	return startGranted(t, rules)
}

// startGranted is start of an operator that has been given another role.
func startGranted(t *testing.T, granted []rbacv1.PolicyRule) *harness {
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
	if err != nil {
		t.Fatal(err)
	}
	restricted := h.client(user.Config())
	rules, err := LoadAgentRules()
	if err != nil {
		t.Fatal(err)
	}
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
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			h.t.Fatal(err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// grant allows the user what the rules say, on the hub as on the member, until
// the test ends.
func (h *harness) grant(user string, rules []rbacv1.PolicyRule) {
	h.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	h.create(role)
	h.create(binding)
	who := authorizationv1.SubjectAccessReviewSpec{User: user}
	env.WaitAllowed(h.t.Context(), h.t, h.config, who, "", rules[0], true)
	h.t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(h.admin.Delete(ctx, binding), h.admin.Delete(ctx, role)); err != nil {
			h.t.Error(err)
		}
		env.WaitAllowed(ctx, h.t, h.config, who, "", rules[0], false)
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
	if err := h.admin.Update(h.t.Context(), klusterlet); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) get(name string) *operatorv1.Klusterlet {
	h.t.Helper()
	klusterlet := &operatorv1.Klusterlet{}
	if err := h.admin.Get(h.t.Context(), types.NamespacedName{Name: name}, klusterlet); err != nil {
		h.t.Fatal(err)
	}
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
	got := meta.FindStatusCondition(klusterlet.Status.Conditions, conditionType)
	if got == nil {
		h.t.Fatalf("condition %s is missing; there are %+v", conditionType, klusterlet.Status.Conditions)
	}
	if got.Status != status || got.Reason != reason {
		h.t.Errorf("condition %s is %s/%s (%s), want %s/%s", conditionType, got.Status, got.Reason, got.Message, status, reason)
	}
	if got.ObservedGeneration != klusterlet.Generation {
		h.t.Errorf("condition %s is of generation %d, want %d", conditionType, got.ObservedGeneration, klusterlet.Generation)
	}
	return got
}

func (h *harness) exists(object client.Object, namespace, name string) bool {
	h.t.Helper()
	err := h.admin.Get(h.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		h.t.Fatal(err)
	}
	return err == nil && object.GetDeletionTimestamp().IsZero()
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
	deployment := h.deployment(namespace, name)
	deployment.Status.ObservedGeneration = deployment.Generation
	deployment.Status.Replicas = *deployment.Spec.Replicas
	deployment.Status.AvailableReplicas = *deployment.Spec.Replicas
	deployment.Status.ReadyReplicas = *deployment.Spec.Replicas
	if err := h.admin.Status().Update(h.t.Context(), deployment); err != nil {
		h.t.Fatal(err)
	}
}

// kubeconfig returns a kubeconfig of the hub for the user, changed by the functions.
func (h *harness) kubeconfig(user string, change ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	h.t.Helper()
	added, err := h.env.AddUser(envtest.User{Name: user}, h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	config := added.Config()
	cluster := &clientcmdapi.Cluster{Server: "https://" + trimScheme(config.Host), CertificateAuthorityData: config.CAData}
	auth := &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	for _, f := range change {
		f(cluster, auth)
	}
	encoded, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "hub",
		Contexts:       map[string]*clientcmdapi.Context{"hub": {Cluster: "hub", AuthInfo: "user"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"hub": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": auth},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return encoded
}

func trimScheme(host string) string {
	for _, scheme := range []string{"https://", "http://"} {
		if len(host) > len(scheme) && host[:len(scheme)] == scheme {
			return host[len(scheme):]
		}
	}
	return host
}

// secret writes a secret, whether it is there or not.
func (h *harness) secret(namespace, name string, data map[string][]byte) {
	h.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	err := h.admin.Create(h.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = h.admin.Update(h.t.Context(), secret)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// hubRules are what the hub allows an accepted cluster.
func hubRules() []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list", "watch"),
		rule("cluster.open-cluster-management.io", "managedclusters", "get", "list", "update", "watch"),
		rule("cluster.open-cluster-management.io", "managedclusters/status", "patch", "update"),
		rule("register.open-cluster-management.io", "managedclusters/clientcertificates", "renew"),
		rule("coordination.k8s.io", "leases", "get", "list", "watch", "update"),
		rule("", "events", "create", "patch", "update"),
		rule("events.k8s.io", "events", "create", "patch", "update"),
		rule("work.open-cluster-management.io", "manifestworks", "get", "list", "watch", "update", "patch"),
		rule("work.open-cluster-management.io", "manifestworks/status", "patch", "update"),
	}
}

// bootstrapRules are what the hub allows who wants to join.
func bootstrapRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}},
	}
}
