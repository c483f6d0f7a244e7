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

// userRequestLimiter bounds how many requests of one user are under way: those of an
// aggregated API do not pass the hub's priority and fairness more than once, and
// all come with the certificate of the hub's API server. Whoever reads no answer, or
// no more than a byte of it at a time, has one under way for as long as he likes, so
// no places are shared by all users, nor by paths but those of probes.
type userRequestLimiter struct {
	max int

	mu    sync.Mutex
	count map[requestSlot]int
}

// requestSlot is what is counted together. Watches last, so they are counted apart.
type requestSlot struct {
	user  string
	watch bool
}

func newUserRequestLimiter(limit int) *userRequestLimiter {
	return &userRequestLimiter{max: limit, count: map[requestSlot]int{}}
}

// acquireSlot takes a seat, if there is one.
func (l *userRequestLimiter) acquireSlot(s requestSlot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 && l.count[s] >= l.max {
		return false
	}
	l.count[s]++
	return true
}

func (l *userRequestLimiter) releaseSlot(s requestSlot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[s]--; l.count[s] == 0 {
		delete(l.count, s)
	}
}

// limitRequestsHandler answers with 429 what would be too much.
func (l *userRequestLimiter) limitRequestsHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := request.UserFrom(r.Context())
		info, known := request.RequestInfoFrom(r.Context())
		if !ok || !known || slices.Contains(probePaths(), r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		s := requestSlot{user: user.GetName(), watch: info.Verb == "watch"}
		if !l.acquireSlot(s) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("user %q has %d requests under way already; try again in a second", s.user, l.max), http.StatusTooManyRequests)
			return
		}
		defer l.releaseSlot(s)
		next.ServeHTTP(w, r)
	})
}

// limitedHandlerChain returns the usual chain of handlers, with the limits behind
// authentication and authorization, and without the places that all users share.
func limitedHandlerChain(l *userRequestLimiter, b *bodyChecker) func(http.Handler, *genericserver.Config) http.Handler {
	return func(api http.Handler, c *genericserver.Config) http.Handler {
		c.MaxRequestsInFlight = 0
		c.MaxMutatingRequestsInFlight = 0
		return dropProbeQuery(genericserver.DefaultBuildHandlerChain(l.limitRequestsHandler(b.checkBodyHandler(api)), c))
	}
}

// dropProbeQuery has probes answered without what was asked of them, which they would repeat:
// what fits into the buffer of a connection ends without anybody who reads it.
func dropProbeQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(probePaths(), r.URL.Path) && r.URL.RawQuery != "" {
			plain := *r.URL
			plain.RawQuery = ""
			r = r.WithContext(r.Context())
			r.URL = &plain
		}
		next.ServeHTTP(w, r)
	})
}
