// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestEachPathAsksItsOwnChecks(t *testing.T) {
	checks := PingChecks()
	checks.Ready["caches"] = func(*http.Request) error { return errors.New("not synced") }
	server := httptest.NewServer(checks.newHandler())
	defer server.Close()
	for path, want := range map[string]int{
		"/healthz":       http.StatusOK,
		"/healthz/ping":  http.StatusOK,
		"/readyz":        http.StatusInternalServerError,
		"/readyz/ping":   http.StatusOK,
		"/readyz/caches": http.StatusInternalServerError,
		"/metrics":       http.StatusNotFound,
	} {
		t.Run(path, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
			expect.NoError(t, err)
			response, err := server.Client().Do(request)
			expect.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != want {
				t.Errorf("got status %d, want %d", response.StatusCode, want)
			}
		})
	}
}

func TestNothingIsServedAtPortZero(t *testing.T) {
	never := Checks{Live: map[string]healthz.Checker{}}
	// A manager is not even asked.
	for what, err := range map[string]error{
		"HTTPS": never.ServeTLS(nil, 0, func(*tls.Config) {}), "HTTP": never.AddTo(nil, 0), "HTTP without a manager": never.ServeUntilDone(t.Context(), 0),
	} {
		if err != nil {
			t.Errorf("%s: got error %v, want none", what, err)
		}
	}
}
