// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// patienceMax is how long a test waits for something that takes milliseconds.
const patienceMax = time.Minute

// hub is an API server with the registration controllers at work on it.
type hub struct {
	config *rest.Config
	// client reads and writes as an administrator, cached reads what the
	// controllers see.
	client client.Client
	cached client.Reader
	stop   func()
}

func startHub(t testing.TB, o registration.Options) *hub {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, restConfig := env.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{"../../../config/crd"}
	})
	scheme, err := registration.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{config: restConfig, client: admin}
	h.start(t, restConfig, o)
	return h
}

// start runs the controllers with the credentials.
func (h *hub) start(t testing.TB, credentials *rest.Config, o registration.Options) {
	t.Helper()
	cached, err := registration.CacheOptions()
	if err != nil {
		t.Fatal(err)
	}
	notUnique := true
	mgr, err := ctrl.NewManager(credentials, ctrl.Options{
		Scheme: h.client.Scheme(), Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &notUnique},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := registration.Setup(ctx, mgr, o); err != nil {
		t.Fatal(err)
	}
	h.cached = mgr.GetClient()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controllers stopped: %v", err)
		}
	}
	t.Cleanup(h.stop)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches did not sync")
	}
}

// eventually waits until the condition holds.
func (h *hub) eventually(t testing.TB, what string, holds func(context.Context) (bool, error)) {
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
