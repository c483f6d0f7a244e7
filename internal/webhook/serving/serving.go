// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving is the process that serves webhooks: TLS with a certificate
// that is reloaded when it changes, a bound on what is in work at a time, health, metrics,
// and graceful shutdown.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capstan-io/capstan/internal/options"
	"github.com/capstan-io/capstan/internal/process"
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
	server := webhook.NewServer(webhook.Options{Port: o.Port, CertDir: o.CertDir, TLSOpts: []func(*tls.Config){setTLS, oneAtATime}})
	load := newLoad()
	for _, path := range slices.Sorted(maps.Keys(o.Handlers)) {
		server.Register(path, load.limit(jsonOnly(o.Handlers[path])))
	}
	manager, err := process.NewManager(process.Options{
		Component: o.Component, Config: o.Config, Server: o.Server,
		Scheme:   runtime.NewScheme(), // it reads and watches nothing
		Webhooks: server,
		Ready:    map[string]healthz.Checker{"webhooks": serves(ctx, server)},
	})
	if err != nil {
		return err
	}
	manager.GetWebhookServer() // the manager starts what was got from it
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

// oneAtATime has each connection carry one request at a time: HTTP/1.1. With HTTP/2, what
// has arrived of those that wait for their turn would fill the window of the connection, and
// keep the rest of the one whose turn it is from arriving.
func oneAtATime(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }

// serves is the check that makes the pod ready while the webhooks are served,
// and not any more when ctx has ended.
func serves(ctx context.Context, server webhook.Server) healthz.Checker {
	started := server.StartedChecker()
	return func(request *http.Request) error {
		if ctx.Err() != nil {
			return errors.New("stopping")
		}
		return started(request)
	}
}
