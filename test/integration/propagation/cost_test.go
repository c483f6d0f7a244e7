// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"net/http"
	"regexp"
	"sync"
	"testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// writes counts what the controllers write, by kind of object, and of which objects
// they read a single one. What the server refuses is none: a cache that is a moment
// behind costs a request now and then.
type writes struct {
	mu     sync.Mutex
	counts map[string]int
}

// resourcePath has the resource, and the subresource if there is one.
var resourcePath = regexp.MustCompile(`/(?:namespaces/[^/]+/)?([a-z]+)(/[^/]+)?(/status)?$`)

// count is a round tripper that counts and sends on.
func (w *writes) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode < http.StatusBadRequest {
			found := resourcePath.FindStringSubmatch(request.URL.Path)
			if found != nil && found[1] != "events" && found[1] != "leases" && (request.Method != http.MethodGet || found[2] != "") {
				w.mu.Lock()
				w.counts[request.Method+" "+found[1]+found[3]]++
				w.mu.Unlock()
			}
		}
		return response, err //nolint:wrapcheck // it is the transport's own
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// TestWritesOfADeployment counts what it costs the hub to send a Deployment to
// three clusters: one claim, a binding and its status, a work for each cluster, and
// a few writes of status as they answer. Each cluster has namespace default.
func TestWritesOfADeployment(t *testing.T) {
	counted := &writes{counts: map[string]int{}}
	w := newWorld(t, 3, counted.count)
	w.create(deployment("web", 2), policy("web", policyv1alpha1.Placement{}))
	w.on("web", map[string]int32{"member1": 2, "member2": 2, "member3": 2})

	counted.mu.Lock()
	defer counted.mu.Unlock()
	t.Log(counted.counts)
	for what, want := range map[string]int{
		"PATCH deployments": 1, "POST resourcebindings": 1, "PATCH resourcebindings": 0, "POST manifestworks": 3, "PATCH manifestworks": 0,
	} {
		if got := counted.counts[what]; got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	if status := counted.counts["PATCH resourcebindings/status"]; status > 4 { // chosen, and once for each cluster at most
		t.Errorf("the status of the binding was written %d times", status)
	}
	// What the claim returns is what is sent. A watch may be faster than an answer now and then.
	if reads := counted.counts["GET deployments"]; reads > 3 {
		t.Errorf("the Deployment was read %d times", reads)
	}
	if status := counted.counts["PATCH deployments/status"]; status > 3 {
		t.Errorf("the status of the Deployment was written %d times", status)
	}
}

// TestARestartWritesNothing starts the controllers a second time.
func TestARestartWritesNothing(t *testing.T) {
	w := newWorld(t, 2)
	w.create(policy("web", policyv1alpha1.Placement{}))
	everywhere := map[string]int32{"member1": 1, "member2": 1}
	for _, name := range []string{"a", "b", "c"} {
		w.create(deployment(name, 1))
	}
	for _, name := range []string{"a", "b", "c"} {
		w.on(name, everywhere)
	}
	w.stop()

	counted := &writes{counts: map[string]int{}}
	w.start(counted.count)
	w.create(deployment("d", 1)) // it is served when all others have been looked at, or soon
	w.on("d", everywhere)
	for _, name := range []string{"a", "b", "c"} {
		w.on(name, everywhere)
	}

	counted.mu.Lock()
	defer counted.mu.Unlock()
	t.Log(counted.counts)
	if claims, bindings, works := counted.counts["PATCH deployments"], counted.counts["POST resourcebindings"], counted.counts["POST manifestworks"]; claims != 1 || bindings != 1 || works != 2 {
		t.Errorf("more was written than the new Deployment takes: %v", counted.counts)
	}
	if patched := counted.counts["PATCH manifestworks"] + counted.counts["PATCH resourcebindings"]; patched != 0 {
		t.Errorf("what was right was written again: %v", counted.counts)
	}
}
