// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// clientOf returns a client that hears of a 404 only from the cluster with the id.
func clientOf(t *testing.T, url string, ca []byte, id string) *http.Client {
	t.Helper()
	config := &rest.Config{Host: url, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	expect.NoError(t, ConfirmNotFound(config, id))
	client, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	return client
}

func get(t *testing.T, client *http.Client, url string) (status int, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	expect.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

func TestAnAnswer404CountsOnlyIfTheClusterProvesWhoItIs(t *testing.T) {
	cases := map[string]struct {
		reason string
		id     string // expected
		status int    // of the answer for the namespace kube-system
		body   string
		fails  string // a part of the error; empty if the 404 counts
	}{
		"the cluster": {
			reason: "it is who it has to be", id: "one", status: http.StatusOK, body: `{"kind":"Namespace","metadata":{"uid":"one"}}`,
		},
		"a cluster that was not known": {
			reason: "it is an API server, and who it is counts from now on", status: http.StatusOK, body: `{"kind":"Namespace","metadata":{"uid":"one"}}`,
		},
		"another cluster": {
			reason: "it says nothing about the objects of this one", id: "one", status: http.StatusOK,
			body: `{"kind":"Namespace","metadata":{"uid":"two"}}`, fails: "is two, not one",
		},
		"a proxy without a cluster": {
			reason: "every cluster has the namespace", id: "one", status: http.StatusNotFound, body: "404 page not found", fails: "404",
		},
		"a proxy that does not reach the cluster": {
			reason: "it says so", id: "one", status: http.StatusBadGateway, fails: "502",
		},
		"a page for people": {
			reason: "an API server answers in JSON", id: "one", status: http.StatusOK, body: "<html>", fails: "not an API server",
		},
		"an API server that does not let us ask": {
			reason: "it is one, which is all that can be known", id: "one", status: http.StatusForbidden,
			body: `{"kind":"Status","status":"Failure","reason":"Forbidden"}`,
		},
		"a proxy that does not let us ask": {
			reason: "it may be anyone", id: "one", status: http.StatusForbidden, body: "denied", fails: "not an API server",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("%s was asked for with the credential %q", r.URL.Path, r.Header.Get("Authorization"))
				}
				if r.URL.Path != "/behind/a/proxy/"+identityPath {
					http.NotFound(w, r)
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			client := clientOf(t, server.URL+"/behind/a/proxy", ca, c.id)
			for range 2 { // what was learned from the first holds for the second
				status, err := get(t, client, server.URL+"/behind/a/proxy/api/v1/namespaces/default/configmaps/x")
				switch {
				case c.fails == "" && (err != nil || status != http.StatusNotFound):
					t.Errorf("%s: got %d and error %v, want 404", c.reason, status, err)
				case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
					t.Errorf("%s: got %d and error %v, want one with %q", c.reason, status, err, c.fails)
				}
			}
		})
	}
}

// What stood in front of the cluster may go away between its answer and that of
// the cluster, which then seems to confirm it.
func TestAForeignAnswer404IsNotConfirmedByWhatComesAfterIt(t *testing.T) {
	const status = `{"kind":"Status","code":404}`
	for name, c := range map[string]struct {
		method, sent, content, body string
		want                        int
		requests                    int32
	}{
		"a page":                     {method: http.MethodGet, content: "text/plain; charset=utf-8", body: "404 page not found", want: http.StatusOK, requests: 2},
		"another JSON":               {method: http.MethodGet, content: "application/json", body: `{"error":"no route"}`, want: http.StatusOK, requests: 2},
		"a request with a body":      {method: http.MethodPatch, sent: "all of it", content: "text/plain", body: "no", want: http.StatusOK, requests: 2},
		"an API server":              {method: http.MethodGet, content: "application/json", body: status, want: http.StatusNotFound, requests: 1},
		"an API server, in protobuf": {method: http.MethodGet, content: "application/vnd.kubernetes.protobuf", body: "k8s", want: http.StatusNotFound, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "kube-system") {
					_, _ = fmt.Fprint(w, `{"metadata":{"uid":"one"}}`)
					return
				}
				if sent, err := io.ReadAll(r.Body); err != nil || string(sent) != c.sent {
					t.Errorf("the request says %q (%v), want %q", sent, err, c.sent)
				}
				if requests.Add(1) == 1 {
					w.Header().Set("Content-Type", c.content)
					w.WriteHeader(http.StatusNotFound)
					_, _ = fmt.Fprint(w, c.body)
				}
			})
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+"/x", strings.NewReader(c.sent))
			expect.NoError(t, err)
			response, err := clientOf(t, server.URL, ca, "one").Do(request)
			expect.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode != c.want || requests.Load() != c.requests {
				t.Errorf("got %d after %d requests and error %v, want %d after %d", response.StatusCode, requests.Load(), err, c.want, c.requests)
			}
			if c.want == http.StatusNotFound && string(body) != c.body {
				t.Errorf("the answer is %q, want %q", body, c.body)
			}
		})
	}
}

func TestWhoTheClusterIsIsLearnedOnce(t *testing.T) {
	var id atomic.Pointer[string]
	id.Store(new("one"))
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "kube-system") {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `{"metadata":{"uid":%q}}`, *id.Load())
	})
	client := clientOf(t, server.URL, ca, "")
	if status, err := get(t, client, server.URL+"/x"); err != nil || status != http.StatusNotFound {
		t.Fatalf("the first answer: got %d and error %v, want 404", status, err)
	}
	id.Store(new("two"))
	if _, err := get(t, client, server.URL+"/x"); err == nil {
		t.Error("another cluster's answer 404 counts")
	}
}

// TestAnAnswer404IsNotConfirmedByWhatWasAskedBefore has the cluster asked who it is while it is there, and something
// in front of it answer 404 before that is answered.
func TestAnAnswer404IsNotConfirmedByWhatWasAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const isGone = `{"kind":"Status","code":404}`
		answers := make(chan struct{})
		var away atomic.Bool
		cluster := &confirmingTransport{
			id: "one", url: &url.URL{Scheme: "https", Host: "member", Path: "/" + identityPath}, turn: make(chan struct{}, 1),
			next: answerFunc(func(r *http.Request) *http.Response {
				switch {
				case away.Load():
					return responseOf(http.StatusNotFound, "text/plain", "404 page not found")
				case strings.HasSuffix(r.URL.Path, identityPath):
					<-answers
					return responseOf(http.StatusOK, "application/json", `{"metadata":{"uid":"one"}}`)
				default:
					return responseOf(http.StatusNotFound, "application/json", isGone)
				}
			}),
		}
		client := &http.Client{Transport: cluster}
		var both sync.WaitGroup
		both.Go(func() {
			if got, err := get(t, client, "https://member/gone"); err != nil || got != http.StatusNotFound {
				t.Errorf("got %d and error %v of what was asked before, want 404", got, err)
			}
		})
		synctest.Wait()
		away.Store(true)
		both.Go(func() {
			if got, err := get(t, client, "https://member/there"); err == nil {
				t.Errorf("got %d while something in front of the cluster answered, want an error", got)
			}
		})
		synctest.Wait()
		close(answers)
		both.Wait()
	})
}

// answerFunc is a transport that always has an answer.
type answerFunc func(*http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (f answerFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func responseOf(status int, content, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {content}}, Body: io.NopCloser(strings.NewReader(body))}
}

// TestAForeignAnswer404MayComeTwice has something that goes away and comes back, so that it answers what is repeated, too.
func TestAForeignAnswer404MayComeTwice(t *testing.T) {
	var away atomic.Int32
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "kube-system") && away.Load() < 2 {
			_, _ = fmt.Fprint(w, `{"metadata":{"uid":"one"}}`)
			return
		}
		away.Add(1)
		http.NotFound(w, r)
	})
	if got, err := get(t, clientOf(t, server.URL, ca, "one"), server.URL+"/there"); err == nil {
		t.Errorf("got %d, want an error", got)
	}
}

func TestManyAnswers404AreConfirmedTogether(t *testing.T) {
	const together = 50
	var confirmed atomic.Int32
	var arrived sync.WaitGroup
	arrived.Add(together)
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "kube-system") {
			confirmed.Add(1)
			_, _ = fmt.Fprint(w, `{"metadata":{"uid":"one"}}`)
			return
		}
		arrived.Done()
		arrived.Wait()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"kind":"Status","code":404}`)
	})
	client := clientOf(t, server.URL, ca, "one")
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			if status, err := get(t, client, server.URL+"/x"); err != nil || status != http.StatusNotFound {
				t.Errorf("got %d and error %v, want 404", status, err)
			}
		})
	}
	all.Wait()
	if n := confirmed.Load(); n < 1 || n > together/2 {
		t.Errorf("%d answers at once were confirmed by %d requests", together, n)
	}
}

func TestOnlyAnAPIServerIsWell(t *testing.T) {
	cases := map[string]struct {
		reason string
		status int
		well   bool
	}{
		"ok":        {reason: "it says so", status: http.StatusOK, well: true},
		"forbidden": {reason: "it knows the token and has authorization", status: http.StatusForbidden, well: true},
		"not found": {reason: "API servers have this path", status: http.StatusNotFound},
		"redirect":  {reason: "API servers do not redirect", status: http.StatusFound},
		"teapot":    {reason: "who knows what that is", status: http.StatusTeapot},
		"busy":      {reason: "it takes no requests", status: http.StatusTooManyRequests},
		"in trouble": {
			reason: "it says so", status: http.StatusInternalServerError,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
			found := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal()).ProbeHealth(t.Context())
			if found.IsNone() != c.well {
				t.Errorf("%s: found %v, want well=%t", c.reason, found, c.well)
			}
		})
	}
}
