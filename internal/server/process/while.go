// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/server/footprint"
	"github.com/capstan-io/capstan/internal/server/health"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
)

// ServeWhile does the work of an agent, and serves the health and the metrics of the
// process as long as that goes on. The config is for the cluster that knows who
// may read the metrics.
//
// An agent is healthy and ready as long as it runs: it needs no restart for
// waiting, and a hub that is away does not make its pod fail.
func ServeWhile(ctx context.Context, server options.ServerOptions, config *rest.Config, component string, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return health.PingChecks().ServeUntilDone(ctx, server.HealthProbePort) })
	group.Go(func() error { return serveMetrics(ctx, server, config, component) })
	group.Go(func() error {
		footprint.ReleaseMemory(ctx, clock.RealClock{})
		return nil
	})
	group.Go(func() error {
		defer cancel()
		return work(ctx)
	})
	return group.Wait()
}

// serveMetrics serves the metrics of the process until ctx ends.
func serveMetrics(ctx context.Context, server options.ServerOptions, config *rest.Config, component string) error {
	if server.MetricsPort == 0 {
		return nil
	}
	setTLS, err := server.TLSConfigurer()
	if err != nil {
		return err
	}
	if err := metrics.RegisterBuildInfo(controllermetrics.Registry, component); err != nil {
		return err
	}
	serving, err := metrics.NewMetricsServer(server.MetricsPort, setTLS, config)
	if err != nil {
		return err
	}
	if err := serving.Start(ctx); err != nil {
		return fmt.Errorf("serving metrics on port %d: %w", server.MetricsPort, err)
	}
	return nil
}
