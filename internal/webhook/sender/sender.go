// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sender finds out which address a request of a webhook comes from. API servers show a
// webhook no credential unless somebody configures them to, so an address is all that
// distinguishes them from other pods that reach the port. It authenticates nobody.
package sender

import (
	"context"
	"net"
	"net/http"
)

type senderKey struct{}

// AddressOf returns the address of the sender, without its port.
func AddressOf(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return address
}

// RequestWithSender returns the request with a context from which AddressFromContext returns the address of its
// sender.
func RequestWithSender(r *http.Request) *http.Request {
	return r.WithContext(ContextWithSender(r.Context(), AddressOf(r)))
}

// ContextWithSender returns a context for what the sender at an address asks.
func ContextWithSender(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, senderKey{}, address)
}

// AddressFromContext returns the address of the sender, or "" if it is not known.
func AddressFromContext(ctx context.Context) string {
	address, _ := ctx.Value(senderKey{}).(string)
	return address
}
