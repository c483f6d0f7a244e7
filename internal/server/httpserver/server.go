// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpserver makes the HTTP servers of all processes, with bounds for what clients
// may take of them: connections, bytes of headers, and time.
//
// It knows no path and no caller; who may ask what is for handlers to decide.
package httpserver

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// HeaderBytesMax is how many bytes the headers of a request have, which is more than a
	// token has. Go reads 4 KiB beyond it.
	HeaderBytesMax = 32 << 10

	readHeaderTimeout   = 5 * time.Second
	readTimeout         = 15 * time.Second
	writeTimeoutDefault = time.Minute
	// idleTimeout is longer than the 90 seconds for which API servers keep connections to webhooks:
	// whoever closes one first must not be the server, or a request meets the end of it.
	idleTimeout        = 2 * time.Minute
	connectionsDefault = 128
	shutdownDefault    = time.Second
)

// ListenOptions say what is served, where, and within which bounds.
type ListenOptions struct {
	// Name is what the server is for, in the log.
	Name    string
	Handler http.Handler
	// Address is what the server listens on, with a port.
	Address string
	// TLS is the configuration for HTTPS. It serves HTTP without it.
	TLS *tls.Config
	// ConnectionsMax is how many connections clients have together. Defaults to 128. One
	// more ends another: the oldest of the address that has most of them.
	ConnectionsMax int
	// WriteTimeout is how long a request may take from its headers to the end of its
	// answer. Defaults to a minute.
	WriteTimeout time.Duration
	// ShutdownTimeout is how long requests that are under way may take at the end. Defaults
	// to a second.
	ShutdownTimeout time.Duration
}

// NewListeningServer returns a server that listens already, and serves once it is started: by a
// manager, whether that leads or not, or by itself. Who starts it not has to close its
// Listener. It speaks HTTP/1.1 only, so that a connection has one request at a time.
func NewListeningServer(o ListenOptions) (*manager.Server, error) {
	listener, err := net.Listen("tcp", o.Address) //nolint:noctx // there is nothing to wait for
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", o.Address, err)
	}
	listener = BoundConnections(listener, cmp.Or(o.ConnectionsMax, connectionsDefault))
	if o.TLS != nil {
		config := o.TLS.Clone()
		config.NextProtos = []string{"http/1.1"}
		listener = tls.NewListener(listener, config)
	}
	shutdown := cmp.Or(o.ShutdownTimeout, shutdownDefault)
	return &manager.Server{
		Name: o.Name,
		Server: &http.Server{
			Handler: o.Handler, MaxHeaderBytes: HeaderBytesMax,
			ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
			WriteTimeout: cmp.Or(o.WriteTimeout, writeTimeoutDefault),
		},
		Listener: listener, ShutdownTimeout: &shutdown,
	}, nil
}

// AddTo listens as NewListeningServer does, and makes the manager serve.
func AddTo(mgr manager.Manager, o ListenOptions) error {
	server, err := NewListeningServer(o)
	if err != nil {
		return err
	}
	if err := mgr.Add(server); err != nil {
		_ = server.Listener.Close() // nobody has been told of it
		return fmt.Errorf("adding the server of the %s: %w", o.Name, err)
	}
	return nil
}
