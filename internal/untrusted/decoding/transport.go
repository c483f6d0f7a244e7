// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

import (
	"errors"
	"io"
	"net/http"
)

// NewTransport returns a transport for clients that decode objects whole: of an answer to a request
// with a context of BeginReservation, the end comes when there is room for what is made of it. Clients read
// an answer to its end before they decode it.
func NewTransport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &waitingTransport{next}
}

type waitingTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *waitingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // clients look for errors of the transport
	}
	response.Body = &waitingBody{ReadCloser: response.Body, request: request}
	return response, nil
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (t *waitingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// waitingBody is that of an answer.
type waitingBody struct {
	io.ReadCloser

	request *http.Request
	counter byteCounter
}

// Read implements io.Reader.
func (b *waitingBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.counter.addPiece(into[:n])
	if errors.Is(err, io.EOF) {
		if failed := TakeMemory(b.request.Context(), b.counter.decodedBytes()); failed != nil {
			return n, failed
		}
	}
	return n, err //nolint:wrapcheck // io.EOF has to be itself
}
