// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// fronts make one member look like many clusters: each has an endpoint, and
// says that it is another one.
type fronts struct {
	server *httptest.Server
	behind http.Handler
	// asked counts requests, also watches when they begin.
	asked atomic.Int64
}

func newFronts(member *fleet.Cluster) (*fronts, error) {
	target, err := url.Parse(member.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of %s: %w", member.Name, err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(member.Config))
	if err != nil {
		return nil, fmt.Errorf("making a way to %s: %w", member.Name, err)
	}
	f := &fronts{behind: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	return f, nil
}

func (f *fronts) close() {
	f.server.CloseClientConnections()
	f.server.Close()
}

// endpoint is that of a cluster: all have the address, each a path of its own.
func (f *fronts) endpoint(i int) string { return f.server.URL + "/" + strconv.Itoa(i) }

func (f *fronts) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// ServeHTTP implements http.Handler.
func (f *fronts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	cluster, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if path == "api/v1/namespaces/kube-system" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"uid-of-%s"}}`, cluster) // who asked may have gone
		return
	}
	r.URL.Path, r.URL.RawPath = "/"+path, ""
	f.behind.ServeHTTP(w, r)
}
