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
	"fmt"
	"net/http"
	"strconv"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/httpserver"
)

const (
	livePath  = "/healthz"
	readyPath = "/readyz"
)

// Checks are what /healthz and /readyz ask, by name.
type Checks struct {
	Live, Ready map[string]healthz.Checker
}

// PingChecks returns the checks of a component that is alive and ready as soon as it
// answers.
func PingChecks() Checks {
	return Checks{
		Live:  map[string]healthz.Checker{"ping": healthz.Ping},
		Ready: map[string]healthz.Checker{"ping": healthz.Ping},
	}
}

// AddTo makes the manager serve the checks over HTTP, as long as it runs and whether it
// leads or not. Port 0 serves nothing.
func (c Checks) AddTo(mgr manager.Manager, port int) error {
	if port == 0 {
		return nil
	}
	if err := httpserver.AddTo(mgr, c.listenOptions(port, nil)); err != nil {
		return fmt.Errorf("serving health probes on --health-probe-port %d (0 turns them off): %w", port, err)
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
	config.GetCertificate = certs.NewSelfSigned("capstan-health", clock.RealClock{}).GetCertificate
	if err := httpserver.AddTo(mgr, c.listenOptions(port, config)); err != nil {
		return fmt.Errorf("serving health probes on --secure-health-probe-port %d (0 turns them off): %w", port, err)
	}
	return nil
}

// ServeUntilDone serves the checks over HTTP until ctx ends, for a component without a
// manager. Port 0 serves nothing.
func (c Checks) ServeUntilDone(ctx context.Context, port int) error {
	if port == 0 {
		return nil
	}
	server, err := httpserver.NewListeningServer(c.listenOptions(port, nil))
	if err == nil {
		err = server.Start(ctx)
	}
	if err != nil {
		return fmt.Errorf("serving health probes on --health-probe-port %d (0 turns them off): %w", port, err)
	}
	return nil
}

// listenOptions returns the options of a server of the checks.
func (c Checks) listenOptions(port int, config *tls.Config) httpserver.ListenOptions {
	return httpserver.ListenOptions{Name: "health probes", Handler: c.newHandler(), Address: ":" + strconv.Itoa(port), TLS: config}
}

func (c Checks) newHandler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{livePath: c.Live, readyPath: c.Ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler) // a single check
	}
	return mux
}
