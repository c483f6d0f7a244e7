// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

import (
	"errors"
	"io"
	"net/http"
)

// Transport returns a transport for clients that decode objects whole: of an answer to a request
// with a context of Begin, the end comes when there is room for what is made of it. Clients read
// an answer to its end before they decode it.
func Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{next}
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // clients look for errors of the transport
	}
	response.Body = &body{ReadCloser: response.Body, request: request}
	return response, nil
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// body is that of an answer.
type body struct {
	io.ReadCloser

	request *http.Request
	counter counter
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.counter.add(into[:n])
	if errors.Is(err, io.EOF) {
		if failed := Take(b.request.Context(), b.counter.decoded()); failed != nil {
			return n, failed
		}
	}
	return n, err //nolint:wrapcheck // io.EOF has to be itself
}
