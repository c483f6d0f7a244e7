// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package size bounds the objects that webhooks read. The API server asks webhooks about
// whatever somebody sends who may write a kind, up to 3 MB of it, before it looks at the
// schema or finds that nobody could store it. Read, an object takes many times what it has
// as a text.
package size

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Stored is how many bytes etcd takes at most, unless it is told otherwise. An object that
// has more cannot be stored.
const Stored = 1536 << 10

// LimitObjectSize returns the webhooks, by their paths, as they are to be served: they refuse objects
// of more than bytesMax bytes, without reading them. An object that is no larger than it was is
// let through, or else nobody could take its finalizers off.
func LimitObjectSize(bytesMax int, webhooks map[string]*admission.Webhook) map[string]http.Handler {
	handlers := make(map[string]http.Handler, len(webhooks))
	for path, webhook := range webhooks {
		webhook.Handler = sizeLimitedHandler{Handler: webhook.Handler, bytesMax: bytesMax}
		handlers[path] = webhook
	}
	return handlers
}

// sizeLimitedHandler is a webhook that reads objects of bytesMax bytes at most.
type sizeLimitedHandler struct {
	admission.Handler

	bytesMax int
}

// Handle implements admission.Handler.
func (l sizeLimitedHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	if size := len(request.Object.Raw); size > l.bytesMax && size > len(request.OldObject.Raw) {
		return admission.Errored(http.StatusRequestEntityTooLarge, fmt.Errorf(
			"the %s %q has %d bytes, and may have %d at most: make it smaller, or divide it", request.Kind.Kind, request.Name, size, l.bytesMax))
	}
	return l.Handler.Handle(ctx, request)
}
