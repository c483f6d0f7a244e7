// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
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
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/agent/work/hubfile"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
)

const (
	// patience is how long a test waits for what should take seconds.
	patience     = 2 * time.Minute
	hubNamespace = "open-cluster-management-hub"
	cluster      = "c1"
	klusterlet   = "uid-of-the-klusterlet"
)

// side is an API server and its administrator.
type side struct {
	server *envtest.Environment
	config *rest.Config
	client client.Client
}

// lab is a hub with its registration controllers, and a member.
type lab struct {
	t           *testing.T
	hub, member side
	// agent is the ID of the agent in the cluster, endpoint how the hub reaches this.
	agent, endpoint string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSide(t *testing.T) side {
	t.Helper()
	server, cfg := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	scheme, err := registration.NewRegistrationScheme()
	must(t, err)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, workv1.AddToScheme, fleetv1alpha1.AddToScheme, operatorv1.AddToScheme} {
		must(t, add(scheme))
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return side{server: server, config: cfg, client: c}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	l := &lab{t: t, hub: newSide(t), member: newSide(t), agent: klusterlet}
	l.endpoint = l.member.config.Host
	l.startHub()
	return l
}

// grant gives an identity of the hub the generated rules of a component.
func (l *lab) grant(name string, component string, subject rbacv1.Subject, who authorizationv1.SubjectAccessReviewSpec) {
	l.t.Helper()
	rules, _, err := config.Rules(component)
	must(l.t, err)
	l.create(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	)
	env.WaitAllowed(l.t.Context(), l.t, l.hub.config, who, "", rules[0], true)
}

func (l *lab) create(objects ...client.Object) {
	l.t.Helper()
	for _, object := range objects {
		must(l.t, l.hub.client.Create(l.t.Context(), object))
	}
}

// as returns the hub's configuration for an identity.
func (l *lab) as(user string, groups ...string) *rest.Config {
	cfg := rest.CopyConfig(l.hub.config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	cfg.QPS = -1
	return cfg
}

// background runs a function until the test ends.
func (l *lab) background(what string, run func(ctx context.Context) error) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			l.t.Errorf("%s: %v", what, err)
		}
	})
	l.t.Cleanup(func() { cancel(); running.Wait() })
}

// startHub runs the registration controllers with the rights that they get.
func (l *lab) startHub() {
	l.t.Helper()
	const user = "registration-controller-sa"
	l.grant(user, config.RegistrationController, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user},
		authorizationv1.SubjectAccessReviewSpec{User: user})
	l.create(&rbacv1.ClusterRole{ // the operator makes it
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.PushCredentialsRole},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fleetv1alpha1.DefaultSecretName},
			Verbs: []string{"get", "list", "watch", "patch"},
		}},
	})
	cached, err := registration.NewRegistrationCacheOptions()
	must(l.t, err)
	mgr, err := ctrl.NewManager(l.as(user), ctrl.Options{
		Scheme: l.hub.client.Scheme(), Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // each test has a hub
	})
	must(l.t, err)
	gates, _ := features.ResolveGates(features.HubRegistration, nil)
	must(l.t, registration.SetupRegistrationControllers(l.t.Context(), mgr, registration.SetupOptions{Gates: gates, OwnNamespace: hubNamespace}))
	l.background("the hub's controllers", mgr.Start)
}

// createJoined makes the cluster as it is once the certificate request of its own agent was
// approved, and that has reported that it has joined: no test runs that part of it.
func (l *lab) createJoined(annotations map[string]string) {
	l.t.Helper()
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: cluster, Annotations: annotations}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAgents, "one")
	l.create(mc)
	l.eventually("the cluster to have joined", func(ctx context.Context) string {
		must(l.t, l.hub.client.Get(ctx, client.ObjectKeyFromObject(mc), mc))
		for _, condition := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Test"})
		}
		err := l.hub.client.Status().Update(ctx, mc)
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		must(l.t, err)
		return ""
	})
}

// startPull runs the work agent of the cluster, as a Klusterlet has it run.
func (l *lab) startPull() {
	l.t.Helper()
	agent, err := l.hub.server.AddUser(envtest.User{
		Name: clusterv1.AgentUser(cluster, "one"), Groups: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters},
	}, nil)
	must(l.t, err)
	kubeconfig, err := agent.KubeConfig()
	must(l.t, err)
	file := filepath.Join(l.t.TempDir(), "kubeconfig")
	must(l.t, os.WriteFile(file, kubeconfig, 0o600))
	_, registry := l.works()
	l.background("the work agent", hubfile.NewKubeconfigFollower(hubfile.FollowerOptions{
		File: file, ClusterName: cluster, AgentID: l.agent, Member: l.member.config, Registry: registry, Log: logr.Discard(),
	}).RunFollower)
}

// works returns the part for works, which runs until the test ends, and a
// registry of it alone.
func (l *lab) works() (*work.ManifestWorkPart, *fleet.Registry) {
	l.t.Helper()
	part, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	must(l.t, err)
	l.background("works", part.Start)
	return part, fleet.NewRegistry(fleet.RegistryOptions{Parts: []fleet.Part{part}})
}

// ahead is how far the clock of the push agent is ahead: two thirds of the
// shortest life that a token can have are over then, so it is renewed at once.
const (
	shortest = 10 * time.Minute
	ahead    = shortest * 2 / 3
)

// startPush runs the push agent with the rights that it gets, and no others.
// It knows the hub by another URL than the agent in the cluster.
func (l *lab) startPush() {
	l.t.Helper()
	account := "system:serviceaccount:" + hubNamespace + ":" + fleetv1alpha1.PushAgentServiceAccount
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + hubNamespace}
	l.grant("push-agent", config.PushAgent,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: hubNamespace, Name: fleetv1alpha1.PushAgentServiceAccount},
		authorizationv1.SubjectAccessReviewSpec{User: account, Groups: groups})
	works, _ := l.works()
	clock := clocktesting.NewFakeClock(time.Now().Add(ahead))
	l.background("the clock", func(ctx context.Context) error {
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
		Hub: l.as(account, groups...), HubURL: "https://10.96.0.1", Clock: clock, Log: logr.Discard(),
		Guard:      dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20}, Parts: []fleet.Part{works},
	})
	must(l.t, err)
	l.background("the push agent", agent.RunSessions)
}

// token returns a token of an administrator of the member that has the shortest
// life there is.
func (l *lab) token() []byte {
	l.t.Helper()
	ctx := l.t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "push"}}
	must(l.t, l.member.client.Create(ctx, account))
	must(l.t, l.member.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "push"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "push"}},
	}))
	seconds := int64(shortest / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	must(l.t, l.member.client.SubResource("token").Create(ctx, account, request))
	return []byte(request.Status.Token)
}

// eventually waits until the function returns an empty string.
func (l *lab) eventually(what string, lacks func(ctx context.Context) string) {
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

// mayUseWorks waits until the cluster's own agent may use works, or may not.
func (l *lab) mayUseWorks(yes bool) {
	l.t.Helper()
	agent := authorizationv1.SubjectAccessReviewSpec{
		User: clusterv1.AgentUser(cluster, "one"), Groups: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters},
	}
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{workv1.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{clusterv1.LeaseName}, Verbs: []string{"update"}},
	} {
		env.WaitAllowed(l.t.Context(), l.t, l.hub.config, agent, cluster, rule, yes)
	}
	env.WaitAllowed(l.t.Context(), l.t, l.hub.config, agent, "", rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, ResourceNames: []string{cluster}, Verbs: []string{"update"},
	}, yes)
}

func manifest(name, value string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},"data":{"value":%q}}`, name, value)}}
}
