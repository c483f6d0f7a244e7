// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package env gives a test a real Kubernetes API server.
//
// Servers is how a package's tests get one: each test finds it as if it had just
// been started, and most of them do not wait for a start. Start gives a test a
// server of its own, for who changes what an API server is started with, or breaks it.
//
// The server comes from the executables in KUBEBUILDER_ASSETS, which
// `make envtest-assets` lays out; nothing is downloaded.
package env

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/timing"
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
	environment, config, err := startServer(t.Name(), newEnvironment(options))
	if err != nil {
		t.Fatalf("starting an API server: %v", err)
	}
	t.Cleanup(func() {
		if err := stopServer(t.Name(), environment); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	return environment, config
}

// newEnvironment returns an API server that is not started yet.
func newEnvironment(options []func(*envtest.Environment)) *envtest.Environment {
	environment := &envtest.Environment{
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: serverPatience, ControlPlaneStopTimeout: serverPatience,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: serverPatience},
	}
	for _, option := range options {
		option(environment)
	}
	return environment
}

// startServer starts an API server, and installs its definitions once it serves, so that
// the one is measured apart from the other.
func startServer(test string, environment *envtest.Environment) (*envtest.Environment, *rest.Config, error) {
	definitions := environment.CRDInstallOptions
	definitions.CRDs = slices.Concat(definitions.CRDs, environment.CRDs)
	definitions.Paths = slices.Concat(definitions.Paths, environment.CRDDirectoryPaths)
	definitions.ErrorIfPathMissing = environment.ErrorIfCRDPathMissing
	environment.CRDInstallOptions = envtest.CRDInstallOptions{}
	environment.CRDs = nil
	environment.CRDDirectoryPaths = nil

	begun := time.Now()
	config, err := environment.Start()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller says what was tried
	}
	config.QPS = -1
	config.Burst = 0
	timing.RecordStep(test, timing.Start, begun)

	if len(definitions.CRDs)+len(definitions.Paths) > 0 {
		begun = time.Now()
		definitions.WebhookOptions = environment.WebhookInstallOptions
		if environment.CRDs, err = envtest.InstallCRDs(config, definitions); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("installing definitions: %w", err), environment.Stop())
		}
		timing.RecordStep(test, timing.Definitions, begun)
	}
	return environment, config, nil
}

func stopServer(test string, environment *envtest.Environment) error {
	defer timing.RecordStep(test, timing.Stop, time.Now())
	return environment.Stop() //nolint:wrapcheck // the caller says what was tried
}
