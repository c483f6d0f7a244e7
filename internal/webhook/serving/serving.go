// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving is the process that serves webhooks: TLS with a certificate
// that is read again when it changes, health, metrics, and an end that loses
// no request.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capstan-io/capstan/internal/metrics"
	"github.com/capstan-io/capstan/internal/options"
)

const (
	// DefaultPort is where the API server finds the webhooks.
	DefaultPort = 9443
	// DefaultCertDir has tls.crt and tls.key.
	DefaultCertDir = "/tmp/k8s-webhook-server/serving-certs"
	// ShutdownDelay is how long the server goes on after it was told to stop. It
	// is not ready then, and the API servers need a moment to hear of it: what
	// they send until then would fail.
	ShutdownDelay = 5 * time.Second
)

// Options say what is served and where.
type Options struct {
	// Component is the name in the metrics, such as "work-webhook".
	Component string
	// Handlers are the webhooks by their paths.
	Handlers map[string]http.Handler
	// Config is for the API server that knows who may read the metrics.
	Config *rest.Config
	// Port of the webhooks, and the directory of their certificate.
	Port    int
	CertDir string
	// Server has the ports of health and metrics and the TLS settings.
	Server options.Server
	// Clock counts ShutdownDelay.
	Clock clock.Clock
}

// Run serves until ctx ends, and ShutdownDelay longer.
func Run(ctx context.Context, o Options) error {
	setTLS, err := o.Server.TLS()
	if err != nil {
		return err
	}
	if err := metrics.RegisterBuildInfo(controllermetrics.Registry, o.Component); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(o.Config, ctrl.Options{
		Scheme: runtime.NewScheme(), // it reads and watches nothing
		WebhookServer: webhook.NewServer(webhook.Options{
			Port: o.Port, CertDir: o.CertDir, TLSOpts: []func(*tls.Config){setTLS},
		}),
		HealthProbeBindAddress: o.Server.HealthProbeAddress(),
		Metrics:                metrics.Options(o.Server.MetricsPort, setTLS),
	})
	if err != nil {
		return fmt.Errorf("setting up the webhook server: %w", err)
	}
	server := manager.GetWebhookServer() // the manager starts what was got from it
	for _, path := range sortedPaths(o.Handlers) {
		server.Register(path, o.Handlers[path])
	}
	if err := addChecks(ctx, manager, server); err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		select {
		case <-ctx.Done():
		case <-serving.Done():
			return
		}
		log.FromContext(ctx).Info("Stopping; requests that are on their way are still answered", "for", ShutdownDelay.String())
		select {
		case <-o.Clock.After(ShutdownDelay):
			stop()
		case <-serving.Done():
		}
	}()
	if err := manager.Start(serving); err != nil {
		return fmt.Errorf("serving webhooks on port %d: %w", o.Port, err)
	}
	return nil
}

// addChecks makes the pod ready while the webhooks are served, and not any
// more when ctx has ended.
func addChecks(ctx context.Context, manager ctrl.Manager, server webhook.Server) error {
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	started := server.StartedChecker()
	err := manager.AddReadyzCheck("webhooks", func(request *http.Request) error {
		if ctx.Err() != nil {
			return errors.New("stopping")
		}
		return started(request)
	})
	if err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

func sortedPaths(handlers map[string]http.Handler) []string {
	paths := make([]string, 0, len(handlers))
	for path := range handlers {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}
