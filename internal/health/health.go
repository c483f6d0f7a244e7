// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health serves liveness and readiness of a component, with a manager
// or without, with the same checks over HTTP and HTTPS.
//
// It decides nothing: what makes a component ready is the component's to say.
package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-io/capstan/internal/certs"
)

const (
	livePath  = "/healthz"
	readyPath = "/readyz"
	// readHeaderTimeout is how long a probe may take to ask, shutdownTimeout how
	// long one that is under way may take at the end.
	readHeaderTimeout = 5 * time.Second
	shutdownTimeout   = time.Second
)

// Checks are what /healthz and /readyz ask, by name.
type Checks struct {
	Live, Ready map[string]healthz.Checker
}

// Ping returns the checks of a component that is alive and ready as soon as it
// answers.
func Ping() Checks {
	return Checks{
		Live:  map[string]healthz.Checker{"ping": healthz.Ping},
		Ready: map[string]healthz.Checker{"ping": healthz.Ping},
	}
}

// AddTo adds the checks to those that the manager serves over HTTP.
func (c Checks) AddTo(mgr manager.Manager) error {
	for name, check := range c.Live {
		if err := mgr.AddHealthzCheck(name, check); err != nil {
			return fmt.Errorf("adding the health check %q: %w", name, err)
		}
	}
	for name, check := range c.Ready {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness check %q: %w", name, err)
		}
	}
	return nil
}

// ServeTLS makes the manager serve the checks over HTTPS as well, as long as
// it runs and whether it leads or not. Kubelets do not verify the certificate
// that they are shown, so it is self-signed and lives in memory. Port 0 serves
// nothing. The function setTLS, which may be nil, sets versions and cipher
// suites.
func (c Checks) ServeTLS(mgr manager.Manager, port int, setTLS func(*tls.Config)) error {
	if port == 0 {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if setTLS != nil {
		setTLS(config)
	}
	config.GetCertificate = certs.NewSelfSigned("capstan-health", clock.RealClock{}).Get
	listener, err := tls.Listen("tcp", ":"+strconv.Itoa(port), config)
	if err != nil {
		return fmt.Errorf("serving health probes on --secure-health-probe-port %d (0 turns them off): %w", port, err)
	}
	timeout := shutdownTimeout
	server := &manager.Server{
		Name:            "secure health probe",
		Server:          &http.Server{Handler: c.handler(), ReadHeaderTimeout: readHeaderTimeout},
		Listener:        listener,
		ShutdownTimeout: &timeout,
	}
	if err := mgr.Add(server); err != nil {
		_ = listener.Close() // nobody has been told of it
		return fmt.Errorf("adding the server of health probes over HTTPS: %w", err)
	}
	return nil
}

// Serve serves the checks over HTTP until ctx ends, for a component without a
// manager. Port 0 serves nothing.
func (c Checks) Serve(ctx context.Context, port int) error {
	if port == 0 {
		return nil
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("serving health probes on --health-probe-port %d (0 turns them off): %w", port, err)
	}
	server := &http.Server{Handler: c.handler(), ReadHeaderTimeout: readHeaderTimeout}
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // the process ends
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health probes: %w", err)
	}
	return nil
}

func (c Checks) handler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{livePath: c.Live, readyPath: c.Ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler) // a single check
	}
	return mux
}
