// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// readHeaderTimeout is how long a probe may take to ask, shutdownTimeout how
	// long one that is under way may take at the end.
	readHeaderTimeout = 5 * time.Second
	shutdownTimeout   = time.Second
)

// ServeHealth serves /healthz and /readyz on the port until ctx ends. An agent
// is healthy and ready as long as it runs: it needs no restart for waiting,
// and a hub that is away does not make its pod fail. Port 0 serves nothing.
func ServeHealth(ctx context.Context, port int) error {
	if port == 0 {
		return nil
	}
	well := func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("ok")); err != nil {
			return // who asked has gone
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", well)
	mux.HandleFunc("/readyz", well)
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("serving health probes on --health-probe-port %d (0 turns them off): %w", port, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
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
