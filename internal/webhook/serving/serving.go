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
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capstan-io/capstan/internal/server/httpserver"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
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
	// connectionsMax is how many connections API servers have, which need one for each
	// request that is under way.
	connectionsMax = 1024
	// shutdownMax is how long requests take that are under way at the end.
	shutdownMax = 15 * time.Second
	// checkMax is how long a connection takes that reports whether the webhooks are served.
	checkMax = 10 * time.Second
)

// ServerOptions say what is served and where.
type ServerOptions struct {
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
	Server options.ServerOptions
	// Clock counts ShutdownDelay.
	Clock clock.Clock
}

// RunWebhookServer serves until ctx ends, and ShutdownDelay longer.
func RunWebhookServer(ctx context.Context, o ServerOptions) error {
	setTLS, err := o.Server.TLSConfigurer()
	if err != nil {
		return err
	}
	mgr, err := process.NewManager(process.ManagerOptions{
		Component: o.Component, Config: o.Config, Server: o.Server,
		Scheme: runtime.NewScheme(), // it reads and watches nothing
		Ready:  map[string]healthz.Checker{"webhooks": webhooksReady(ctx, o.Port)},
	})
	if err != nil {
		return err
	}
	if err := o.addServerTo(mgr, setTLS); err != nil {
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
	if err := mgr.Start(serving); err != nil {
		return fmt.Errorf("serving webhooks on port %d: %w", o.Port, err)
	}
	return nil
}

// addServerTo makes the manager serve the webhooks. The server of controller-runtime has no bounds
// for what clients take, so all that it does is to count requests.
func (o ServerOptions) addServerTo(mgr manager.Manager, setTLS func(*tls.Config)) error {
	mux := http.NewServeMux()
	load := newRequestLoad(o.Clock)
	counted := webhook.NewServer(webhook.Options{WebhookMux: mux})
	for _, path := range slices.Sorted(maps.Keys(o.Handlers)) {
		counted.Register(path, load.limitHandler(jsonOnly(o.Handlers[path])))
	}
	watcher, err := certwatcher.New(filepath.Join(o.CertDir, corev1.TLSCertKey), filepath.Join(o.CertDir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return fmt.Errorf("reading the certificate of the webhooks in --cert-dir %q: %w", o.CertDir, err)
	}
	if err := mgr.Add(watcher); err != nil {
		return fmt.Errorf("watching the certificate of the webhooks: %w", err)
	}
	// HTTP/1.1, which the server speaks, has a connection carry one request at a time. With
	// HTTP/2, what has arrived of those that wait for their turn would fill the window of
	// the connection, and keep the rest of the one whose turn it is from arriving.
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	setTLS(config)
	config.GetCertificate = watcher.GetCertificate
	if err := httpserver.AddTo(mgr, httpserver.ListenOptions{
		Name: "webhooks", Handler: mux, Address: ":" + strconv.Itoa(o.Port), TLS: config,
		ConnectionsMax: connectionsMax, ShutdownTimeout: shutdownMax,
	}); err != nil {
		return fmt.Errorf("serving webhooks on --port %d: %w", o.Port, err)
	}
	return nil
}

// webhooksReady is the check that makes the pod ready while connections to the webhooks are
// accepted, and not any more when ctx has ended.
func webhooksReady(ctx context.Context, port int) healthz.Checker {
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Timeout: checkMax},
		Config:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it says nothing, and asks nothing
	}
	return func(request *http.Request) error {
		if ctx.Err() != nil {
			return errors.New("stopping")
		}
		connection, err := dialer.DialContext(request.Context(), "tcp", net.JoinHostPort("", strconv.Itoa(port))) //nolint:contextcheck // it is checked for this request
		if err != nil {
			return fmt.Errorf("connecting to the webhooks: %w", err)
		}
		_ = connection.Close() // nothing was said
		return nil
	}
}
