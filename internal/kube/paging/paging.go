// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package paging lists what an API server has that somebody else has chosen, such as that of
// a hosted hub, a page at a time: a large fleet has more objects than there is room for.
//
// Such a server could always say that there is one more page. So it is bounded how many
// objects there may be, and for how long a server may take to list them. How large objects
// are is the choice of others as well, so a page has fewer of them where they are larger
// than what a client takes of an answer.
package paging

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/dial"
)

const (
	// ClustersMax is how many clusters a list may have, all of its pages together: some times
	// as many as a big fleet has.
	ClustersMax = 100_000
	// ObjectsMax is the same for other objects.
	ObjectsMax = 1_000_000
	// timeMax is how long a server may take to list them. What the caller does with a
	// page does not count.
	timeMax = 10 * time.Minute
	// nameMax is how long the name of an object may be in Kubernetes. Callers keep them.
	nameMax = 253
)

// Pages is how a list is read.
type Pages struct {
	reader client.Reader
	// size is how many objects a page has at most, unless they are too much for one answer,
	// and most how many there may be in all. A page counts as a full one, as an API server
	// fills all but the last.
	size, most int64
	timeMax    time.Duration
}

// NewPages returns pages of at most so many objects each, and so many in all.
func NewPages(reader client.Reader, size, most int64) Pages {
	return Pages{reader: reader, size: size, most: most, timeMax: timeMax}
}

// EachPage returns the pages of what the options choose, each read into what empty returns. What
// kept it from reading all of them comes with the last one, which is then not to be used. The
// errors of the server are as it gave them. A page that is too much for an answer is requested
// again with half as many objects, down to one, and so are those after it.
func EachPage[L client.ObjectList](ctx context.Context, p Pages, empty func() L, options ...client.ListOption) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		size := p.size
		objects := int64(0)
		left := p.timeMax
		for next := ""; ; {
			page := empty()
			began := time.Now()
			err := p.readPage(ctx, page, left, append([]client.ListOption{client.Limit(size), client.Continue(next)}, options...))
			left -= time.Since(began)
			if size > 1 && left > 0 && ctx.Err() == nil && isPageTooLarge(err) {
				size /= 2
				continue
			}
			if !yield(page, err) || err != nil {
				return
			}
			before := next
			objects += max(size, int64(meta.LenList(page)))
			if next = page.GetContinue(); next == "" {
				return
			}
			if err := p.checkNextPage(next == before, objects, left); err != nil {
				yield(page, err)
				return
			}
		}
	}
}

// readPage reads a page.
func (p Pages) readPage(ctx context.Context, page client.ObjectList, left time.Duration, options []client.ListOption) error {
	ctx, cancel := context.WithTimeoutCause(ctx, left, p.tookTooLong())
	defer cancel()
	var connecting atomic.Bool // requests may be repeated below
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connecting.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connecting.Store(false) },
	})
	if err := p.reader.List(dial.PagedContext(ctx), page, options...); err != nil {
		if why := context.Cause(ctx); errors.Is(why, ErrUnending) {
			return why //nolint:wrapcheck // it is ours
		}
		if connecting.Load() {
			return &unreachedError{err}
		}
		return err //nolint:wrapcheck // the caller knows what it lists
	}
	return meta.EachListItem(page, func(item runtime.Object) error { //nolint:wrapcheck // it is ours
		if o, is := item.(client.Object); is && (len(o.GetName()) > nameMax || len(o.GetNamespace()) > nameMax) {
			return fmt.Errorf("an object has a name of more than %d characters, %.60q", nameMax, o.GetNamespace()+"/"+o.GetName())
		}
		return nil
	})
}

// unreachedError says that there was no connection for the request: the name of the server was not
// resolved, nobody answered at its address, a proxy did not lead there, or the TLS handshake failed.
type unreachedError struct{ err error }

func (e *unreachedError) Error() string { return e.err.Error() }
func (e *unreachedError) Unwrap() error { return e.err }

// isPageTooLarge reports whether an error may be due to the size of a page: it has more bytes than are
// taken of an answer, or takes longer than a request may. A server that was not reached has not
// looked at the size: the caller waits as for any server that does not answer.
func isPageTooLarge(err error) bool {
	if unreached := (*unreachedError)(nil); errors.As(err, &unreached) {
		return false
	}
	var limit *dial.LimitError
	var late net.Error
	return errors.As(err, &limit) || errors.As(err, &late) && late.Timeout() || apierrors.IsTimeout(err)
}

// ErrUnending says that a server does not end a list.
var ErrUnending = errors.New("the API server does not end the list")

func (p Pages) tookTooLong() error {
	return fmt.Errorf("%w: it has taken longer than %s; check what serves this endpoint", ErrUnending, p.timeMax)
}

// checkNextPage returns why no further page is read, if it is not.
func (p Pages) checkNextPage(again bool, objects int64, left time.Duration) error {
	switch {
	case again:
		return fmt.Errorf("%w: it goes on where it did before; check what serves this endpoint", ErrUnending)
	case objects >= p.most:
		return fmt.Errorf("%w: it has more than %d objects, with %d on a page; check what serves this endpoint", ErrUnending, p.most, p.size)
	case left <= 0:
		return p.tookTooLong()
	}
	return nil
}
