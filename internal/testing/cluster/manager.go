// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// NewManager returns a manager that serves no metrics. One process has one controller of a name,
// a test binary several.
func NewManager(t testing.TB, access *rest.Config, options ctrl.Options) ctrl.Manager {
	t.Helper()
	skip := true
	options.Metrics, options.Controller = metricsserver.Options{BindAddress: "0"}, config.Controller{SkipNameValidation: &skip}
	manager, err := ctrl.NewManager(access, options)
	expect.NoError(t, err)
	return manager
}

// RunManager runs a manager until the test ends, and expects that it ends without an error.
func RunManager(t testing.TB, manager ctrl.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with an error: %v", err)
		}
	})
}
