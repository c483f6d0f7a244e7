// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/capstan-io/capstan/internal/server/guard"
)

// protectHandler returns the handler for those who may do the request's verb on its path, as a
// non-resource URL.
func protectHandler(by *guard.AccessGuard, log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := by.Decide(r, guard.AccessRequest{NonResource: &authorizationv1.NonResourceAttributes{
			Path: r.URL.Path, Verb: strings.ToLower(r.Method),
		}})
		if err != nil {
			log.Error(err, "Cannot tell whether the reader of the metrics may read them")
			http.Error(w, "the API server could not review your permissions; try again", http.StatusServiceUnavailable)
			return
		}
		if answer.Status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if answer.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, answer.Message, answer.Status)
	})
}
