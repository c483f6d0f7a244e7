// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/hack/gen/exposed"
)

const (
	metricsPage = "docs/reference/metrics.md"
	// serverPatience is how long a busy machine may take to start or stop an API server.
	serverPatience = 2 * time.Minute
)

// generateMetrics makes the table of all metrics of our own. It starts an API server, as
// components ask for one to be set up; KUBEBUILDER_ASSETS says where that is.
func generateMetrics(ctx context.Context, root string) (files generatedFiles, err error) {
	ctrl.SetLogger(logr.Discard())
	existing := false
	server := &envtest.Environment{
		UseExistingCluster: &existing, CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: serverPatience},
		CRDDirectoryPaths: []string{filepath.Join(root, "config/crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: serverPatience, ControlPlaneStopTimeout: serverPatience,
	}
	hub, err := server.Start()
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err != nil {
		return nil, fmt.Errorf("starting an API server, which 'make envtest-assets' brings: %w", err)
	}
	metrics, err := exposed.CollectMetrics(ctx, hub)
	if err != nil {
		return nil, err
	}
	place := generatedPart{begin: "<!-- metrics: written by make generate-metrics -->\n", end: "<!-- end of metrics -->"}
	page, err := place.replaceIn(root, metricsPage, metricTable(metrics))
	return generatedFiles{metricsPage: page}, err
}

func metricTable(metrics map[string]exposed.Metric) string {
	var table strings.Builder
	table.WriteString("| name | type | labels | component | meaning |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m := metrics[name]
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", name, m.Kind, strings.Join(m.Labels, ", "), strings.Join(m.Components, ", "), m.Help)
	}
	return table.String()
}
