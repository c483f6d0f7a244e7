// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports gives tests ports to listen on.
package ports

import (
	"net"
	"testing"
)

// FreePort returns a port of 127.0.0.1 on which nobody listened a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of TCP
}
