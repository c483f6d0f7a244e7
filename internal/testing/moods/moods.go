// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package moods puts a front before the API server of a member, which can be in a bad mood: slow, silent,
// endless, or gone as far as one can tell.
package moods

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// Mood is how a front treats requests.
type Mood = int32

// The moods of a front.
const (
	Well Mood = iota
	Hang
	Reset
	Slow
	// Gone answers 404 to everything, HalfGone to all but the question how
	// it is: what stands in front of an API server does, while that is away.
	Gone
	HalfGone
	// Hold does not answer who creates an AppliedManifestWork, and all else.
	Hold
	// Endless answers a gzip without end to all but the questions how and who it
	// is.
	Endless
)

// slowPause is how long a slow cluster takes for each answer.
const slowPause = 5 * time.Second

// Front is a further address of an API server that can be in a bad mood, and has
// an identity of its own.
type Front struct {
	*httptest.Server
	id      string
	Mood    atomic.Int32
	Hanging atomic.Int32
	Asked   atomic.Int32
	// Abandoned counts the requests that hung until who asked gave up.
	Abandoned atomic.Int32
	// Denied counts the answers 404 of the front itself.
	Denied atomic.Int32
	// Minted counts the requests for tokens; BeforeMint, if there is one, is called
	// before each.
	Minted     atomic.Int32
	BeforeMint atomic.Pointer[func()]
	// Behind is the way to the API server.
	Behind http.Handler
}

// StartFront starts a front of an API server, until the test ends. Who asks who the cluster is hears the ID.
func StartFront(t testing.TB, config *rest.Config, id string) *Front {
	t.Helper()
	target, err := url.Parse(config.Host)
	expect.NoError(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	expect.NoError(t, err)
	f := &Front{id: id}
	f.Behind = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // who asked has gone
	}
	f.Server = httptest.NewUnstartedServer(f)
	f.EnableHTTP2 = true
	f.StartTLS()
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

// CAData returns the authority of the front.
func (f *Front) CAData() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
}

// hang does not answer, until who asks has gone.
func (f *Front) hang(r *http.Request) {
	f.Hanging.Add(1)
	defer f.Hanging.Add(-1)
	<-r.Context().Done()
	f.Abandoned.Add(1)
}

// endless answers with a gzip of spaces until nobody reads it any more.
func endless(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	zip, spaces := gzip.NewWriter(w), bytes.Repeat([]byte(" "), 1<<20)
	for {
		if _, err := zip.Write(spaces); err != nil {
			return
		}
	}
}

// misbehave treats a request as the mood is. It returns false if the API server is
// to answer it.
func (f *Front) misbehave(w http.ResponseWriter, r *http.Request) bool {
	switch f.Mood.Load() {
	case Hang:
		f.hang(r)
		return true
	case Hold:
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/appliedmanifestworks") {
			f.hang(r)
			return true
		}
	case Endless:
		if r.URL.Path != "/livez" && r.URL.Path != "/api/v1/namespaces/kube-system" {
			endless(w)
			return true
		}
	case Reset:
		panic(http.ErrAbortHandler)
	case Gone:
		f.Denied.Add(1)
		http.NotFound(w, r)
		return true
	case HalfGone:
		if r.URL.Path != "/livez" {
			f.Denied.Add(1)
			http.NotFound(w, r)
			return true
		}
	case Slow:
		timer := time.NewTimer(slowPause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		}
	}
	return false
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Asked.Add(1)
	if f.misbehave(w, r) {
		return
	}
	if r.URL.Path == "/api/v1/namespaces/kube-system" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(f.id)},
		})
		return
	}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token") {
		f.Minted.Add(1)
		if before := f.BeforeMint.Load(); before != nil {
			(*before)()
		}
	}
	f.Behind.ServeHTTP(w, r)
}
