// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestAUserHasSoManyRequestsUnderWay(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	handler := newUserRequestLimiter(2).limitRequestsHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Wait") != "" {
			started <- struct{}{}
			<-finish
		}
	}))
	ask := func(name, verb, path, wait string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Wait", wait)
		ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: name})
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: path == "/apis", Verb: verb})
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(ctx))
		return w
	}
	ended := make(chan int)
	for range 2 {
		go func() { ended <- ask("ann", "list", "/apis", "yes").Code }()
		<-started
	}
	if w := ask("ann", "get", "/apis", ""); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("one more request: %d with Retry-After %q, want 429 and 1", w.Code, w.Header().Get("Retry-After"))
	}
	if w := ask("ann", "get", "/openapi/v2", ""); w.Code != http.StatusTooManyRequests {
		t.Errorf("one more request, for what is no resource: %d, want 429", w.Code)
	}
	for what, w := range map[string]*httptest.ResponseRecorder{
		"a watch": ask("ann", "watch", "/apis", ""), "another user": ask("bob", "get", "/apis", ""), "a health check": ask("ann", "get", "/healthz", ""),
	} {
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d, want that it is not limited by the requests of ann", what, w.Code)
		}
	}
	close(finish)
	for range 2 {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("a request within the limit: %d", code)
		}
	}
	if w := ask("ann", "get", "/apis", ""); w.Code != http.StatusOK {
		t.Errorf("after the others: %d, want that there is a seat again", w.Code)
	}
}
