// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/capstan-io/capstan/internal/version"
)

const (
	// drainTime is how long requests that began with an old client certificate
	// may go on after there is a new one. Watches are cut then and resumed by
	// their clients; other requests are long done.
	drainTime = 10 * time.Second
	// dialTimeout and keepAlive are those of client-go.
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
	// handshakeTimeout is how long TLS may take.
	handshakeTimeout = 10 * time.Second
)

// Hub is a way to the hub with a client certificate that can be replaced while
// requests are under way: none of them fails by that. It is safe for
// concurrent use.
type Hub struct {
	endpoint Endpoint
	roots    *x509.CertPool
	refused  func(status int)

	mu       sync.RWMutex
	current  *generation
	draining map[*generation]*time.Timer
	closed   bool
}

// generation is the connections that were made with one certificate.
type generation struct {
	*http.Transport
	dialer *connrotation.Dialer
}

func (g *generation) close() {
	g.CloseIdleConnections()
	g.dialer.CloseAll()
}

// NewHub returns a Hub without making a connection. The function refused is
// called with the status of each answer 401 and 403; it has to return at once
// and may be nil.
func NewHub(endpoint Endpoint, certificate tls.Certificate, refused func(status int)) (*Hub, error) {
	h := &Hub{endpoint: endpoint, refused: refused, draining: map[*generation]*time.Timer{}}
	if len(endpoint.CA) > 0 {
		h.roots = x509.NewCertPool()
		if !h.roots.AppendCertsFromPEM(endpoint.CA) {
			return nil, errors.New("the CA of the hub kubeconfig has no PEM certificate")
		}
	}
	g, err := h.generate(certificate)
	if err != nil {
		return nil, err
	}
	h.current = g
	return h, nil
}

// generate returns a transport with a certificate.
func (h *Hub) generate(certificate tls.Certificate) (*generation, error) {
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	transport := &http.Transport{
		DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: h.roots, ServerName: h.endpoint.TLSServerName,
			InsecureSkipVerify: h.endpoint.Insecure, //nolint:gosec // only if the user's kubeconfig says so
			Certificates:       []tls.Certificate{certificate},
		},
		TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: 2,
	}
	if h.endpoint.ProxyURL != "" {
		proxy, err := url.Parse(h.endpoint.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("proxy-url %q of the hub kubeconfig: %w", h.endpoint.ProxyURL, err)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	utilnet.SetTransportDefaults(transport) // HTTP/2 with pings, so that a dead connection is noticed
	return &generation{Transport: transport, dialer: dialer}, nil
}

// Config returns a configuration for clients that use this way. It has no
// limit on requests.
func (h *Hub) Config() *rest.Config {
	return &rest.Config{
		Host: h.endpoint.Server, Transport: h, QPS: -1, UserAgent: "capstan-agent/" + version.Get(),
	}
}

// Endpoint returns where the way leads.
func (h *Hub) Endpoint() Endpoint { return h.endpoint }

// RoundTrip implements http.RoundTripper.
func (h *Hub) RoundTrip(request *http.Request) (*http.Response, error) {
	h.mu.RLock()
	g := h.current
	h.mu.RUnlock()
	response, err := g.RoundTrip(request)
	if err == nil && h.refused != nil &&
		(response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
		h.refused(response.StatusCode)
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (h *Hub) WrappedRoundTripper() http.RoundTripper {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.current.Transport
}

// Replace makes all requests from now on use the certificate. The connections
// that were made with the old one are closed a little later.
func (h *Hub) Replace(certificate tls.Certificate) error {
	g, err := h.generate(certificate)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the connection to the hub is closed")
	}
	old := h.current
	h.current = g
	h.draining[old] = time.AfterFunc(drainTime, func() {
		h.mu.Lock()
		delete(h.draining, old)
		h.mu.Unlock()
		old.close()
	})
	return nil
}

// Close closes all connections.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for g, timer := range h.draining {
		timer.Stop()
		g.close()
	}
	clear(h.draining)
	h.current.close()
}
