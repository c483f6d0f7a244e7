// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestOnlyTheClusterSaysThatItHasNoIdentity has an agent ask for the identity of
// its member while something in front of that answers. An agent that believes it
// would join without an identity, so the hub could not tell its cluster from another.
func TestOnlyTheClusterSaysThatItHasNoIdentity(t *testing.T) {
	type answer struct {
		status int
		body   string
	}
	notFound := answer{http.StatusNotFound, "404 page not found"}
	for name, test := range map[string]struct {
		reason string
		before answer // what is in front
		after  answer // the cluster itself
		want   string
	}{
		"NotFound": {
			"every cluster has the namespace", notFound,
			answer{http.StatusOK, `{"kind":"Namespace","metadata":{"uid":"one"}}`},
			"one",
		},
		"NotFoundAsAnAPIServerSaysIt": {
			"so does an API server that others stand in for",
			answer{http.StatusNotFound, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`},
			answer{http.StatusOK, `{"kind":"Namespace","metadata":{"uid":"one"}}`},
			"one",
		},
		"Denied": {
			"it may be anyone who denies",
			answer{http.StatusForbidden, "denied"},
			answer{http.StatusOK, `{"kind":"Namespace","metadata":{"uid":"one"}}`},
			"one",
		},
		"Unknown": {
			"the agent has no right to know", notFound,
			answer{http.StatusForbidden, `{"kind":"Status","status":"Failure","reason":"Forbidden"}`},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[answer]
			now.Store(&test.before)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(now.Load().status)
				_, _ = w.Write([]byte(now.Load().body))
			}))
			t.Cleanup(server.Close)
			a, err := NewPullAgent(PullAgentOptions{Home: &rest.Config{Host: server.URL}, Member: &rest.Config{Host: server.URL}})
			expect.NoError(t, err)
			if id, err := a.clusterUID(t.Context()); err == nil {
				t.Errorf("%s: the cluster is taken to be %q", test.reason, id)
			}
			now.Store(&test.after)
			if id, err := a.clusterUID(t.Context()); err != nil || id != test.want {
				t.Errorf("%s: got %q and error %v, want %q", test.reason, id, err, test.want)
			}
		})
	}
}
