// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placer runs the hub's controllers of placements, of replica sets and of
// propagation, for tests of what meets them through API objects only.
package placer

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/hub/propagation"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/server/features"
)

// StartPlacement runs the placement controller until the test ends.
func StartPlacement(t testing.TB, config *rest.Config) {
	t.Helper()
	scheme, err := placement.NewPlacementScheme()
	if err != nil {
		t.Fatal(err)
	}
	runManager(t, config, ctrl.Options{Scheme: scheme}, func(mgr ctrl.Manager) error {
		return placement.SetupPlacementController(t.Context(), mgr, placement.SetupOptions{})
	})
}

// StartReplicaSets runs the controller of replica sets until the test ends.
func StartReplicaSets(t testing.TB, config *rest.Config) {
	t.Helper()
	scheme, err := work.NewWorkScheme()
	if err != nil {
		t.Fatal(err)
	}
	runManager(t, config, ctrl.Options{Scheme: scheme, Cache: work.NewWorkCacheOptions()}, func(mgr ctrl.Manager) error {
		gates, _ := features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
		return work.SetupWorkControllers(t.Context(), mgr, work.SetupOptions{Gates: gates})
	})
}

// StartPropagation runs the controllers of propagation until the test ends.
func StartPropagation(t testing.TB, config *rest.Config) {
	t.Helper()
	scheme, err := propagation.NewPropagationScheme()
	if err != nil {
		t.Fatal(err)
	}
	runManager(t, config, ctrl.Options{Scheme: scheme, Cache: propagation.NewPropagationCacheOptions()}, func(mgr ctrl.Manager) error {
		return propagation.SetupPropagationControllers(t.Context(), mgr, propagation.SetupOptions{})
	})
}

func runManager(t testing.TB, config *rest.Config, options ctrl.Options, setup func(ctrl.Manager) error) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller = ctrlconfig.Controller{SkipNameValidation: new(true)} // it runs once in each test
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the controller: %v", err)
		}
	})
}
