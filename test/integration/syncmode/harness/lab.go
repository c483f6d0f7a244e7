// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
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
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/background"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/member"
	"github.com/capstan-io/capstan/operators/clustermanager"
)

const (
	// patience is how long a test waits for what should take seconds.
	patience     = 2 * time.Minute
	hubNamespace = "open-cluster-management-hub"
	Cluster      = "c1"
	Klusterlet   = "uid-of-the-klusterlet"
)

// side is an API server and its administrator.
type side struct {
	server *envtest.Environment
	Config *rest.Config
	Client client.Client
}

// lab is a hub with its registration controllers, and a member.
type lab struct {
	t           testing.TB
	Hub, Member side
	// Agent is the ID of the agent in the cluster, endpoint how the hub reaches this.
	Agent, Endpoint string
}

func newSide(t testing.TB, servers *env.Servers) side {
	t.Helper()
	server, cfg := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	scheme, err := registration.NewRegistrationScheme()
	expect.NoError(t, err)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, workv1.AddToScheme, fleetv1alpha1.AddToScheme, operatorv1.AddToScheme} {
		expect.NoError(t, add(scheme))
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	return side{server: server, Config: cfg, Client: c}
}

// NewLab starts a hub and a member. No agent runs yet.
func NewLab(t testing.TB, servers *env.Servers) *lab {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	l := &lab{t: t, Hub: newSide(t, servers), Member: newSide(t, servers), Agent: Klusterlet}
	l.Endpoint = l.Member.Config.Host
	l.startHub()
	return l
}

// GrantComponent gives an identity of the hub the generated rules of a component.
func (l *lab) GrantComponent(name string, component string, subject rbacv1.Subject, who authorizationv1.SubjectAccessReviewSpec) {
	l.t.Helper()
	rules, _, err := config.Rules(component)
	expect.NoError(l.t, err)
	l.CreateOnHub(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	)
	env.WaitAllowed(l.t.Context(), l.t, l.Hub.Config, who, "", rules[0], true)
}

// CreateOnHub creates objects on the hub.
func (l *lab) CreateOnHub(objects ...client.Object) {
	l.t.Helper()
	for _, object := range objects {
		expect.NoError(l.t, l.Hub.Client.Create(l.t.Context(), object))
	}
}

// ConfigAs returns the hub's configuration for an identity.
func (l *lab) ConfigAs(user string, groups ...string) *rest.Config {
	cfg := rest.CopyConfig(l.Hub.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	cfg.QPS = -1
	return cfg
}

// startHub runs the registration controllers with the rights that they get.
func (l *lab) startHub() {
	l.t.Helper()
	const user = "registration-controller-sa"
	l.GrantComponent(user, config.RegistrationController, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user},
		authorizationv1.SubjectAccessReviewSpec{User: user})
	l.CreateOnHub(&rbacv1.ClusterRole{ // the operator makes it
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.PushCredentialsRole},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fleetv1alpha1.DefaultSecretName},
			Verbs: []string{"get", "list", "watch", "patch"},
		}},
	})
	cached, err := registration.NewRegistrationCacheOptions()
	expect.NoError(l.t, err)
	mgr, err := ctrl.NewManager(l.ConfigAs(user), ctrl.Options{
		Scheme: l.Hub.Client.Scheme(), Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // each test has a hub
	})
	expect.NoError(l.t, err)
	gates, _ := features.ResolveGates(features.HubRegistration, nil)
	expect.NoError(l.t, registration.SetupRegistrationControllers(l.t.Context(), mgr, registration.SetupOptions{Gates: gates, OwnNamespace: hubNamespace}))
	background.RunUntilEnd(l.t, "the hub's controllers", mgr.Start)
}

// CreateJoined makes the cluster as it is once the certificate request of its own agent was
// approved, and that has reported that it has joined: no test runs that part of it.
func (l *lab) CreateJoined(annotations map[string]string) {
	l.t.Helper()
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: Cluster, Annotations: annotations}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAgents, "one")
	l.CreateOnHub(mc)
	l.Eventually("the cluster to have joined", func(ctx context.Context) string {
		expect.NoError(l.t, l.Hub.Client.Get(ctx, client.ObjectKeyFromObject(mc), mc))
		for _, condition := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Test"})
		}
		err := l.Hub.Client.Status().Update(ctx, mc)
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		expect.NoError(l.t, err)
		return ""
	})
}

// StartPull runs the work agent of the cluster, as a Klusterlet has it run.
func (l *lab) StartPull() {
	l.t.Helper()
	agent, err := l.Hub.server.AddUser(envtest.User{
		Name: clusterv1.AgentUser(Cluster, "one"), Groups: []string{clusterv1.AgentGroup(Cluster), clusterv1.GroupManagedClusters},
	}, nil)
	expect.NoError(l.t, err)
	kubeconfig, err := agent.KubeConfig()
	expect.NoError(l.t, err)
	member.RunWorkAgent(l.t, member.WorkAgent{ClusterName: Cluster, AgentID: l.Agent, HubKubeconfig: kubeconfig, Member: l.Member.Config})
}

// ahead is how far the clock of the push agent is ahead: two thirds of the
// shortest life that a token can have are over then, so it is renewed at once.
const (
	shortest = 10 * time.Minute
	ahead    = shortest * 2 / 3
)

// StartPush runs the push agent with the rights that it gets, and no others.
// It knows the hub by another URL than the agent in the cluster.
func (l *lab) StartPush() {
	l.t.Helper()
	account := "system:serviceaccount:" + hubNamespace + ":" + fleetv1alpha1.PushAgentServiceAccount
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + hubNamespace}
	l.GrantComponent("push-agent", config.PushAgent,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: hubNamespace, Name: fleetv1alpha1.PushAgentServiceAccount},
		authorizationv1.SubjectAccessReviewSpec{User: account, Groups: groups})
	clock := clocktesting.NewFakeClock(time.Now().Add(ahead))
	background.RunUntilEnd(l.t, "the clock", func(ctx context.Context) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				clock.SetTime(now.Add(ahead))
			}
		}
	})
	agent, err := push.NewAgent(push.AgentOptions{
		Hub: l.ConfigAs(account, groups...), HubURL: "https://10.96.0.1", Clock: clock, Log: logr.Discard(),
		Guard:      dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20}, Parts: member.RunWorkParts(l.t),
	})
	expect.NoError(l.t, err)
	background.RunUntilEnd(l.t, "the push agent", agent.RunSessions)
}

// RequestToken returns a token of an administrator of the member that has the shortest
// life there is.
func (l *lab) RequestToken() []byte {
	l.t.Helper()
	ctx := l.t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "push"}}
	expect.NoError(l.t, l.Member.Client.Create(ctx, account))
	expect.NoError(l.t, l.Member.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "push"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "push"}},
	}))
	seconds := int64(shortest / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	expect.NoError(l.t, l.Member.Client.SubResource("token").Create(ctx, account, request))
	return []byte(request.Status.Token)
}

// Eventually waits until the function returns an empty string.
func (l *lab) Eventually(what string, lacks func(ctx context.Context) string) {
	l.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		lack := lacks(l.t.Context())
		if lack == "" {
			return
		}
		select {
		case <-deadline.C:
			l.t.Fatalf("waited %s for %s: %s", patience, what, lack)
		case <-tick.C:
		}
	}
}

// MayUseWorks waits until the cluster's own agent may use works, or may not.
func (l *lab) MayUseWorks(yes bool) {
	l.t.Helper()
	agent := authorizationv1.SubjectAccessReviewSpec{
		User: clusterv1.AgentUser(Cluster, "one"), Groups: []string{clusterv1.AgentGroup(Cluster), clusterv1.GroupManagedClusters},
	}
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{clusterv1.LeaseName}, Verbs: []string{"update"}},
	} {
		env.WaitAllowed(l.t.Context(), l.t, l.Hub.Config, agent, Cluster, rule, yes)
	}
	env.WaitAllowed(l.t.Context(), l.t, l.Hub.Config, agent, "", rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, ResourceNames: []string{Cluster}, Verbs: []string{"update"},
	}, yes)
}

// Manifest is a ConfigMap of namespace default with a value.
func Manifest(name, value string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},"data":{"value":%q}}`, name, value)}}
}

// DeliveredConfigMap returns a ConfigMap that a work has delivered.
func (l *lab) DeliveredConfigMap(name string) *corev1.ConfigMap {
	l.t.Helper()
	object := &corev1.ConfigMap{}
	expect.NoError(l.t, l.Member.Client.Get(l.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, object))
	return object
}

// StartOperator makes the hub that of a ClusterManager, as far as it gets
// without nodes, and has the operator keep it so.
func (l *lab) StartOperator(cm *operatorv1.ClusterManager) {
	l.t.Helper()
	definitions, err := config.HubCRDs()
	expect.NoError(l.t, err)
	scheme, err := clustermanager.NewClusterManagerScheme()
	expect.NoError(l.t, err)
	hub, err := client.New(l.Hub.Config, client.Options{Scheme: scheme})
	expect.NoError(l.t, err)
	operator := clustermanager.NewClusterManagerController(clustermanager.ControllerDeps{
		Client: hub, Reader: hub, Clock: clock.RealClock{}, Events: events.NewFakeRecorder(1000),
		CRDs: definitions, Rules: config.Rules,
		Options: clustermanager.OperatorOptions{
			Namespace: operatorv1.DefaultOperatorNamespace, Image: "capstan", Version: "1.2.3", Replicas: 1,
		},
	})
	l.CreateOnHub(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorv1.DefaultOperatorNamespace}}, cm)
	background.RunUntilEnd(l.t, "the operator", func(ctx context.Context) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		live := &operatorv1.ClusterManager{}
		for l.Hub.Client.Get(ctx, client.ObjectKeyFromObject(cm), live) == nil { // until it is removed, or the test ends
			_, _ = operator.Reconcile(ctx, live) // what failed is tried again
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			live = &operatorv1.ClusterManager{}
		}
		return nil
	})
	l.Eventually("the definitions are those of the ClusterManager", func(ctx context.Context) string {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		expect.NoError(l.t, l.Hub.Client.Get(ctx, client.ObjectKey{Name: "manifestworks.work.open-cluster-management.io"}, live))
		if live.Labels[operatorv1.LabelCreatedByClusterManager] != cm.Name {
			return fmt.Sprint(live.Labels)
		}
		return ""
	})
}
