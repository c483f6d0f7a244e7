// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-io/capstan/internal/guard"
	"github.com/capstan-io/capstan/internal/hub/placement"
)

const (
	// ComponentName is the name of the component in metrics.
	ComponentName = "placement-debug"
	// ListenDefault is where the endpoint listens.
	ListenDefault = "0.0.0.0:9443"
	// CertDirDefault has tls.crt and tls.key.
	CertDirDefault = "/tmp/k8s-webhook-server/serving-certs"

	// What a client may take of the server: connections, the time to send a request
	// and to take the answer, and bytes of headers, which is more than a token has.
	connectionsMax    = 256
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = requestTimeout + 30*time.Second
	idleTimeout       = 30 * time.Second
	headerBytesMax    = 32 << 10
	shutdownTimeout   = 5 * time.Second
)

// Options say where the endpoint is served.
type Options struct {
	// Listen is an address with a port.
	Listen string
	// CertDir has the certificate, which is read again when it changes.
	CertDir string
	// SetTLS sets versions and cipher suites.
	SetTLS func(*tls.Config)
}

// Setup makes the manager serve the endpoint. Who asks is reviewed by the
// cluster that the manager works on, as the Placements are there.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := placement.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	reviews, err := guard.New(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	watcher, err := certwatcher.New(filepath.Join(o.CertDir, corev1.TLSCertKey), filepath.Join(o.CertDir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return fmt.Errorf("reading the certificate in --cert-dir %q: %w", o.CertDir, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate}
	o.SetTLS(config)
	listener, err := tls.Listen("tcp", o.Listen, config)
	if err != nil {
		return fmt.Errorf("listening on --listen %q: %w", o.Listen, err)
	}
	timeout := shutdownTimeout
	server := &manager.Server{
		Name: "debug endpoint for Placements",
		Server: &http.Server{
			Handler:           newHandler(reviews, mgr.GetClient(), clock.RealClock{}, mgr.GetLogger()),
			ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		},
		Listener:        netutil.LimitListener(listener, connectionsMax),
		ShutdownTimeout: &timeout,
	}
	for _, runnable := range []manager.Runnable{watcher, server} {
		if err := mgr.Add(runnable); err != nil {
			_ = listener.Close() // nobody has been told of it
			return fmt.Errorf("adding the server of the debug endpoint: %w", err)
		}
	}
	return nil
}
