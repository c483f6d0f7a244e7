// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// patienceMax is how long a test waits for something that takes milliseconds.
const patienceMax = time.Minute

// RegistrationHub is an API server with the registration controllers at work on it.
type RegistrationHub struct {
	AdminConfig *rest.Config
	// Client reads and writes as an administrator, cached reads what the
	// controllers see.
	Client client.Client
	Cached client.Reader
	Stop   func()
}

// StartRegistration starts a hub with the definitions of a folder.
func StartRegistration(t testing.TB, servers *env.Servers, definitions string, o registration.SetupOptions) *RegistrationHub {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, restConfig := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{definitions}
	})
	scheme, err := registration.NewRegistrationScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := &RegistrationHub{AdminConfig: restConfig, Client: admin}
	h.StartControllers(t, h.componentConfig(t), o)
	return h
}

// componentConfig returns the credentials of the component: a user with the
// generated role and nothing else, so that a permission that is missing shows.
func (h *RegistrationHub) componentConfig(t testing.TB) *rest.Config {
	t.Helper()
	const user = "registration-controller-sa"
	rules, _, err := config.Rules(config.RegistrationController)
	if err != nil {
		t.Fatal(err)
	}
	h.GrantUser(t, user, rules...)
	env.WaitAllowed(t.Context(), t, h.AdminConfig, authorizationv1.SubjectAccessReviewSpec{User: user}, "", rules[0], true)
	return AsUser(h.AdminConfig, user)
}

// GrantUser gives a user rights in all namespaces.
func (h *RegistrationHub) GrantUser(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	h.CreateObjects(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	)
}

// AsUser returns the credentials changed to those of a user.
func AsUser(c *rest.Config, user string, groups ...string) *rest.Config {
	c = rest.CopyConfig(c)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return c
}

// ClientOf returns a client with a user's credentials.
func (h *RegistrationHub) ClientOf(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	c, err := client.New(AsUser(h.AdminConfig, user, groups...), client.Options{Scheme: h.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// CreateObjects creates objects, one after the other.
func (h *RegistrationHub) CreateObjects(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := h.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %q: %v", object, object.GetName(), err)
		}
	}
}

// StartControllers runs the controllers with the credentials.
func (h *RegistrationHub) StartControllers(t testing.TB, credentials *rest.Config, o registration.SetupOptions) {
	t.Helper()
	h.StartLogging(t, credentials, o, logr.Discard())
}

// StartLogging does the same with a logger.
func (h *RegistrationHub) StartLogging(t testing.TB, credentials *rest.Config, o registration.SetupOptions, log logr.Logger) {
	t.Helper()
	cached, err := registration.NewRegistrationCacheOptions()
	if err != nil {
		t.Fatal(err)
	}
	notUnique := true
	mgr, err := ctrl.NewManager(credentials, ctrl.Options{
		Scheme: h.Client.Scheme(), Logger: log, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: controllerconfig.Controller{SkipNameValidation: &notUnique},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := registration.SetupRegistrationControllers(ctx, mgr, o); err != nil {
		t.Fatal(err)
	}
	h.Cached = mgr.GetClient()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	h.Stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controllers stopped: %v", err)
		}
	}
	t.Cleanup(h.Stop)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches did not sync")
	}
}

// Eventually waits until the condition holds.
func (h *RegistrationHub) Eventually(t testing.TB, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceMax)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := holds(ctx)
		if err == nil && ok {
			return
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s (last error: %v)", what, last)
		case <-tick.C:
		}
	}
}

// ResolveGates returns the feature gates, changed from their defaults.
func ResolveGates(t testing.TB, changed map[string]bool) features.GateSet {
	t.Helper()
	set, unknown := features.ResolveGates(features.HubRegistration, changed)
	if len(unknown) > 0 {
		t.Fatalf("unknown feature gates %q", unknown)
	}
	return set
}
