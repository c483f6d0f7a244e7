// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/server/guard"
	"github.com/capstan-io/capstan/internal/server/httpserver"
)

const (
	// ComponentName is the name of the component in metrics.
	ComponentName = "placement-debug"
	// ListenDefault is where the endpoint listens.
	ListenDefault = "0.0.0.0:9443"
	// CertDirDefault has tls.crt and tls.key.
	CertDirDefault = "/tmp/k8s-webhook-server/serving-certs"

	// connectionsMax is how many connections clients have together, and writeTimeout how
	// long a request takes with its answer.
	connectionsMax  = 256
	writeTimeout    = requestTimeout + 30*time.Second
	shutdownTimeout = 5 * time.Second
)

// ServerOptions say where the endpoint is served.
type ServerOptions struct {
	// Listen is an address with a port.
	Listen string
	// CertDir has the certificate, which is read again when it changes.
	CertDir string
	// SetTLS sets versions and cipher suites.
	SetTLS func(*tls.Config)
}

// SetupDebugServer makes the manager serve the endpoint. Who asks is reviewed by the
// cluster that the manager works on, as the Placements are there.
func SetupDebugServer(ctx context.Context, mgr ctrl.Manager, o ServerOptions) error {
	if err := placement.IndexDecisions(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	reviews, err := guard.NewAccessGuard(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	watcher, err := certwatcher.New(filepath.Join(o.CertDir, corev1.TLSCertKey), filepath.Join(o.CertDir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return fmt.Errorf("reading the certificate in --cert-dir %q: %w", o.CertDir, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate}
	o.SetTLS(config)
	if err := mgr.Add(watcher); err != nil {
		return fmt.Errorf("watching the certificate of the debug endpoint: %w", err)
	}
	if err := httpserver.AddTo(mgr, httpserver.ListenOptions{
		Name:    "debug endpoint for Placements",
		Handler: newHandler(reviews, mgr.GetClient(), clock.RealClock{}, mgr.GetLogger()),
		Address: o.Listen, TLS: config,
		ConnectionsMax: connectionsMax, WriteTimeout: writeTimeout, ShutdownTimeout: shutdownTimeout,
	}); err != nil {
		return fmt.Errorf("serving the debug endpoint on --listen %q: %w", o.Listen, err)
	}
	return nil
}
