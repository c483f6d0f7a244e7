// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"crypto/tls"
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

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/version"
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

// HubTransport is a way to the hub with a client certificate, and certificates that verify
// the hub's, which can be replaced while requests are under way: none of them
// fails by that. It is safe for concurrent use.
type HubTransport struct {
	refused func(status int)

	mu       sync.RWMutex
	endpoint HubEndpoint
	current  *transportGeneration
	draining map[*transportGeneration]*time.Timer
	closed   bool
}

// transportGeneration is the connections that were made with one certificate.
type transportGeneration struct {
	*http.Transport
	dialer *connrotation.Dialer
}

func (g *transportGeneration) closeConnections() {
	g.CloseIdleConnections()
	g.dialer.CloseAll()
}

// NewHubTransport returns a HubTransport without making a connection. The function refused is
// called with the status of each answer 401 and 403; it has to return at once
// and may be nil.
func NewHubTransport(endpoint HubEndpoint, certificate tls.Certificate, refused func(status int)) (*HubTransport, error) {
	g, err := newGeneration(endpoint, certificate)
	if err != nil {
		return nil, err
	}
	return &HubTransport{endpoint: endpoint, refused: refused, current: g, draining: map[*transportGeneration]*time.Timer{}}, nil
}

// newGeneration returns connections with a certificate.
func newGeneration(endpoint HubEndpoint, certificate tls.Certificate) (*transportGeneration, error) {
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	transport, err := newTransport(endpoint)
	if err != nil {
		return nil, err
	}
	transport.DialContext = dialer.DialContext
	transport.TLSClientConfig.Certificates = []tls.Certificate{certificate}
	utilnet.SetTransportDefaults(transport) // HTTP/2 with pings, so that a dead connection is noticed
	return &transportGeneration{Transport: transport, dialer: dialer}, nil
}

// newTransport returns a transport to the endpoint without a credential.
func newTransport(endpoint HubEndpoint) (*http.Transport, error) {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: endpoint.TLSServerName,
			InsecureSkipVerify: endpoint.Insecure, //nolint:gosec // only if the user's kubeconfig says so
		},
		TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: 2,
	}
	if len(endpoint.CA) > 0 {
		pool, err := certs.NewPool(endpoint.CA)
		if err != nil {
			return nil, fmt.Errorf("the CA of the hub kubeconfig %w", err)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if endpoint.ProxyURL != "" {
		proxy, err := url.Parse(endpoint.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("proxy-url %q of the hub kubeconfig: %w", endpoint.ProxyURL, err)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	return transport, nil
}

// ClientConfig returns a configuration for clients that use this way. It has no
// limit on requests.
func (h *HubTransport) ClientConfig() *rest.Config {
	return &rest.Config{
		Host: h.CurrentEndpoint().Server, Transport: h, QPS: -1, UserAgent: "capstan-agent/" + version.SemanticVersion(),
	}
}

// CurrentEndpoint returns where the way leads.
func (h *HubTransport) CurrentEndpoint() HubEndpoint {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.endpoint
}

// RoundTrip implements http.RoundTripper.
func (h *HubTransport) RoundTrip(request *http.Request) (*http.Response, error) {
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
func (h *HubTransport) WrappedRoundTripper() http.RoundTripper {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.current.Transport
}

// ReplaceCertificates makes all requests from now on use the certificate, and verify the hub
// by the CA. The connections that were made before are closed a little later.
func (h *HubTransport) ReplaceCertificates(ca []byte, certificate tls.Certificate) error {
	endpoint := h.CurrentEndpoint()
	endpoint.CA = ca
	g, err := newGeneration(endpoint, certificate)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the connection to the hub is closed")
	}
	old := h.current
	h.endpoint = endpoint
	h.current = g
	h.draining[old] = time.AfterFunc(drainTime, func() {
		h.mu.Lock()
		delete(h.draining, old)
		h.mu.Unlock()
		old.closeConnections()
	})
	return nil
}

// Close closes all connections.
func (h *HubTransport) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for g, timer := range h.draining {
		timer.Stop()
		g.closeConnections()
	}
	clear(h.draining)
	h.current.closeConnections()
}
