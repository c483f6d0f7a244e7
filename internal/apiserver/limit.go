// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
	genericserver "k8s.io/apiserver/pkg/server"
)

// limiter bounds how many requests of one user are under way: those of an
// aggregated API do not pass the hub's priority and fairness more than once, and
// all come with the certificate of the hub's API server. Whoever reads no answer, or
// no more than a byte of it at a time, has one under way for as long as he likes, so
// no places are shared by all users, nor by paths but those of probes.
type limiter struct {
	max int

	mu    sync.Mutex
	count map[seat]int
}

// seat is what is counted together. Watches last, so they are counted apart.
type seat struct {
	user  string
	watch bool
}

func newLimiter(limit int) *limiter {
	return &limiter{max: limit, count: map[seat]int{}}
}

// take takes a seat, if there is one.
func (l *limiter) take(s seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 && l.count[s] >= l.max {
		return false
	}
	l.count[s]++
	return true
}

func (l *limiter) leave(s seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[s]--; l.count[s] == 0 {
		delete(l.count, s)
	}
}

// handler answers with 429 what would be too much.
func (l *limiter) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := request.UserFrom(r.Context())
		info, known := request.RequestInfoFrom(r.Context())
		if !ok || !known || slices.Contains(probed(), r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		s := seat{user: user.GetName(), watch: info.Verb == "watch"}
		if !l.take(s) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("user %q has %d requests under way already; try again in a second", s.user, l.max), http.StatusTooManyRequests)
			return
		}
		defer l.leave(s)
		next.ServeHTTP(w, r)
	})
}

// limited returns the usual chain of handlers, with the limits behind
// authentication and authorization, and without the places that all users share.
func limited(l *limiter, b *bodies) func(http.Handler, *genericserver.Config) http.Handler {
	return func(api http.Handler, c *genericserver.Config) http.Handler {
		c.MaxRequestsInFlight = 0
		c.MaxMutatingRequestsInFlight = 0
		return briefly(genericserver.DefaultBuildHandlerChain(l.handler(b.handler(api)), c))
	}
}

// briefly has probes answered without what was asked of them, which they would repeat:
// what fits into the buffer of a connection ends without anybody who reads it.
func briefly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(probed(), r.URL.Path) && r.URL.RawQuery != "" {
			plain := *r.URL
			plain.RawQuery = ""
			r = r.WithContext(r.Context())
			r.URL = &plain
		}
		next.ServeHTTP(w, r)
	})
}
