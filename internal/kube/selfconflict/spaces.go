// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"context"
	"io"
	"net/http"

	"github.com/capstan-io/capstan/internal/kube/pace"
)

// writerSpace is who pays for what is written in a namespace.
type writerSpace struct {
	namespace string
	apart     bool
}

// spaceApartKey is that of what WithSpaceApart says.
type spaceApartKey struct{}

// WithSpaceApart returns a context whose writes in a namespace are an administrator's: they do not wait for
// what the users of the namespace have written, and these do not wait for them.
func WithSpaceApart(ctx context.Context) context.Context {
	return context.WithValue(ctx, spaceApartKey{}, true)
}

// payerKey is that of what WithPayer says.
type payerKey struct{}

// WithPayer returns a context in which what is written to objects that are in no namespace counts for this one: they
// are made of what its users want. Without it, and for no namespace, nobody pays.
func WithPayer(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, payerKey{}, namespace)
}

// spaceOf returns who pays for a request. Nobody does for what is in no namespace, but where WithPayer names one, and
// for works and bindings, which have meters of their own.
func spaceOf(r *http.Request, written objectPart) (writerSpace, bool) {
	switch written.GroupResource.String() {
	case "manifestworks.work.open-cluster-management.io", "resourcebindings.work.karmada.io":
		return writerSpace{}, false
	}
	payer := written.Namespace
	if payer == "" {
		payer, _ = r.Context().Value(payerKey{}).(string)
	}
	return writerSpace{namespace: payer, apart: r.Context().Value(spaceApartKey{}) != nil}, payer != ""
}

// writeCause returns why a part is written: a status says what is so, and many a one what clusters say.
func (p objectPart) writeCause() pace.WriteCause {
	if p.subresource == "status" {
		return pace.CauseReport
	}
	return pace.CauseChange
}

// countAnswer counts the answer to a write when it has been read: it is the object as etcd has it, also of one that
// is deleted and that finalizers keep.
func (d *Damper) countAnswer(r *http.Request, written objectPart, response *http.Response) {
	if space, is := spaceOf(r, written); is && response.StatusCode < http.StatusMultipleChoices {
		response.Body = &countedBody{ReadCloser: response.Body, done: func(bytes int) {
			d.spaces.CountWrite(space, written.writeCause(), bytes, d.clock.Now())
		}}
	}
}

// countedBody tells how long a body was once it is closed.
type countedBody struct {
	io.ReadCloser

	bytes int
	done  func(bytes int)
}

// Read implements io.Reader.
func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.bytes += n
	return n, err //nolint:wrapcheck // it is what whoever reads compares
}

// Close implements io.Closer.
func (b *countedBody) Close() error {
	b.done(b.bytes)
	b.done = func(int) {}
	return b.ReadCloser.Close() //nolint:wrapcheck // likewise
}
