// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outage takes the API server away from a client in the middle of what it
// does, and lets its watches fall behind.
package outage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

var errDown = errors.New("connection refused")

// WrappedServer is the API server as a client finds it that is wrapped by it. The zero
// value is up. It is safe for concurrent use.
type WrappedServer struct {
	// Counts selects the writes that count; nil are all but those of events, leases
	// and questions about rights.
	Counts func(*http.Request) bool

	mu      sync.Mutex
	down    bool
	left    int  // writes until it is down; 0 is never
	done    bool // the last of them is carried out
	writes  int
	last    string // the last of the writes
	watches map[io.Closer]bool
	held    string // what watches have in their paths that tell nothing
	gate    chan struct{}
}

// WrapTransport is a wrapper of transports.
func (s *WrappedServer) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) { return s.answerRequest(next, r) })
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// EndsAfter lets the server end with the nth write from now. Nobody hears the
// answer; the write is carried out if done is true.
func (s *WrappedServer) EndsAfter(writes int, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = writes
	s.done = done
}

// EndNow lets the server end now.
func (s *WrappedServer) EndNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goDown()
}

// patience is how long it may take until as much is written as ends a server.
const patience = 2 * time.Minute

// ComesBack waits until the server has ended, and starts it again after a time. It
// fails the test if the server does not end, as nobody writes enough.
func (s *WrappedServer) ComesBack(t testing.TB, after time.Duration) {
	t.Helper()
	for limit := time.After(patience); !s.HasEnded(); {
		select {
		case <-limit:
			t.Fatalf("the API server has not ended: only %d writes were asked for", s.WriteCount())
		case <-time.After(5 * time.Millisecond):
		}
	}
	<-time.After(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// LastWrite is the method and the path of the write that was asked for last.
func (s *WrappedServer) LastWrite() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// HasEnded reports whether the server is down.
func (s *WrappedServer) HasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// WriteCount is how many writes were asked for.
func (s *WrappedServer) WriteCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// HoldWatches lets the watches of a resource tell nothing more: what reads from them is
// behind from now on.
func (s *WrappedServer) HoldWatches(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.gate = "/"+resource, make(chan struct{})
}

// ReleaseWatches lets all watches tell what they have held back.
func (s *WrappedServer) ReleaseWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
	s.held = ""
	s.gate = nil
}

// goDown takes the server away. The caller has the lock.
func (s *WrappedServer) goDown() {
	s.down = true
	s.left = 0
	for watch := range s.watches {
		_ = watch.Close() // it ends as it may
		delete(s.watches, watch)
	}
}

// admitRequest reports whether a request reaches the server, and whether that is the last
// thing that happens to it.
func (s *WrappedServer) admitRequest(r *http.Request) (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.Counts
	if counts == nil {
		counts = countsByDefault
	}
	if s.down {
		return false, errDown
	}
	if r.Method == http.MethodGet || !counts(r) {
		return false, nil
	}
	s.writes++
	s.last = r.Method + " " + r.URL.Path
	if s.left == 0 {
		return false, nil
	}
	if s.left--; s.left > 0 {
		return false, nil
	}
	s.goDown()
	if !s.done {
		return true, errDown
	}
	return true, nil
}

func countsByDefault(r *http.Request) bool {
	for _, part := range []string{"/events", "/leases", "/apis/authorization.k8s.io/"} {
		if strings.Contains(r.URL.Path, part) {
			return false
		}
	}
	return true
}

func (s *WrappedServer) answerRequest(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	last, err := s.admitRequest(r)
	if err != nil {
		return nil, err
	}
	if last { // others that fail would take it back
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is the transport's own
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.Join(errDown, response.Body.Close())
	}
	if r.URL.Query().Get("watch") != "" {
		if s.watches == nil {
			s.watches = map[io.Closer]bool{}
		}
		body := &watchBody{ReadCloser: response.Body, server: s, path: r.URL.Path, closed: make(chan struct{})}
		response.Body = body
		s.watches[body] = true
	}
	return response, nil
}

// watchBody is what a watch tells.
type watchBody struct {
	io.ReadCloser

	server *WrappedServer
	path   string
	once   sync.Once
	closed chan struct{}
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.server.mu.Lock()
	gate := b.server.gate
	if gate != nil && !strings.HasSuffix(b.path, b.server.held) {
		gate = nil
	}
	b.server.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-b.closed:
		}
	}
	return n, err //nolint:wrapcheck // it is the body's own
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close() //nolint:wrapcheck // it is the body's own
}
