// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package env gives a test a real Kubernetes API server.
//
// The server comes from the executables in KUBEBUILDER_ASSETS, which
// `make envtest-assets` lays out; nothing is downloaded.
package env

import (
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// serverPatience is how long a busy machine may take to start or stop an API
// server, or to serve a kind; envtest's own limits are 20 and 10 seconds.
const serverPatience = 2 * time.Minute

// Need skips the test in short mode, which is for machines without an API
// server, and fails it if there is none otherwise.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server: run `make test-integration`")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run `make test-integration`, or set it to what `make envtest-assets` prints, or use -short")
	}
}

// Start starts an API server for the test, changed by the options, and stops
// it when the test ends.
func Start(t testing.TB, options ...func(*envtest.Environment)) (*envtest.Environment, *rest.Config) {
	t.Helper()
	Need(t)
	environment, config, err := start(options)
	if err != nil {
		t.Fatalf("starting an API server: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	return environment, config
}

func start(options []func(*envtest.Environment)) (*envtest.Environment, *rest.Config, error) {
	environment := &envtest.Environment{
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: serverPatience, ControlPlaneStopTimeout: serverPatience,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: serverPatience},
	}
	for _, option := range options {
		option(environment)
	}
	config, err := environment.Start()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller says what was tried
	}
	config.QPS, config.Burst = -1, 0
	return environment, config, nil
}
