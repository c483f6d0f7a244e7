// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// inWorkMax is how many bytes the requests have together that are in work at a time.
	// Read, each takes many times that. Whoever may write one of the kinds, or only try
	// to, can send many at once, of two objects of 3 MB each.
	inWorkMax = 24 << 20
	// shareMax is how many bytes of these the requests of one address have: whoever reaches
	// the port can send some, and nothing tells who is an API server. That may be one
	// address for all users of the hub.
	shareMax = 16 << 20
	// requestMax is what the longest request has: webhooks read no more of one.
	requestMax = 7 << 20
	// turnMax is how long a request waits for its turn. The API server gives up after 10 s,
	// and would not tell its user why.
	turnMax = 5 * time.Second
	// arrivalMax is within what a request has to be here as a whole once it is its turn. API
	// servers send it at once.
	arrivalMax = 3 * time.Second
)

// load lets requests wait while as many are in work as the process has memory for.
type load struct {
	free *semaphore.Weighted
	// turn is how long one waits, and arrival how long it takes then at most to arrive.
	turn, arrival time.Duration

	mu     sync.Mutex
	shares map[string]*share // by address
}

// share is what one address has of the load while requests of it are here.
type share struct {
	free     *semaphore.Weighted
	requests int
}

func newLoad() *load {
	return &load{free: semaphore.NewWeighted(inWorkMax), turn: turnMax, arrival: arrivalMax, shares: map[string]*share{}}
}

// enter returns the share of who sends a request; leave has to be called at its end.
func (l *load) enter(r *http.Request) (s *share, leave func()) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.shares[address]
	if !ok {
		s = &share{free: semaphore.NewWeighted(shareMax)}
		l.shares[address] = s
	}
	s.requests++
	return s, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.requests--; s.requests == 0 {
			delete(l.shares, address)
		}
	}
}

// jsonOnly returns the handler of requests that begin as JSON objects do, as those of API
// servers: others would be read as YAML, of which few bytes can stand for gigabytes.
func jsonOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bufio.NewReader(r.Body)
		if begin, err := body.Peek(1); err == nil && begin[0] != '{' {
			http.Error(w, "the body is not a JSON object", http.StatusUnsupportedMediaType)
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		handler.ServeHTTP(w, r)
	})
}

// limit returns the handler of requests that are counted. Nothing of one is read before its
// turn. One whose turn does not come is answered with 429.
func (l *load) limit(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		weight := int64(requestMax)
		if r.ContentLength >= 0 {
			weight = min(r.ContentLength, requestMax)
		}
		ctx, cancel := context.WithTimeout(r.Context(), l.turn)
		defer cancel()
		mine, leave := l.enter(r)
		defer leave()
		if mine.free.Acquire(ctx, weight) != nil { // before it waits among others
			refuse(w)
			return
		}
		defer mine.free.Release(weight)
		if l.free.Acquire(ctx, weight) != nil {
			refuse(w)
			return
		}
		defer l.free.Release(weight)
		// Who does not send what he has announced would keep others waiting. The server ends
		// the deadline with the body: the answer may take longer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.arrival)) // which connections of a test lack
		handler.ServeHTTP(w, r)
	})
}

// refuse answers so that the API server tells its user.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a connection that is gone needs no answer
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: "the webhook has too many requests in work: try again later",
	})
}
