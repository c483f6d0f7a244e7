// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// serverClock notes the time that an API server says it is: whether a heartbeat
// is late is to be judged by the hub's clock, and not by that of the machine on
// which somebody looks.
type serverClock struct {
	mu  sync.Mutex
	now time.Time
}

// trackServerTime makes the clock listen to the answers to all requests.
func (s *serverClock) trackServerTime(config *rest.Config) {
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(request)
			if err != nil {
				return nil, err
			}
			if now, err := http.ParseTime(response.Header.Get("Date")); err == nil {
				s.mu.Lock()
				s.now = now
				s.mu.Unlock()
			}
			return response, nil
		})
	})
}

// latestTime returns the latest time that the server said, or else the other one.
func (s *serverClock) latestTime(otherwise time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.IsZero() {
		return otherwise
	}
	return s.now
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends the request.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
