// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/untrusted/handshake"
)

// Endpoint is where a cluster is and how to get there.
type Endpoint struct {
	// URL of the API server.
	URL string
	// Proxy is the URL of a proxy that leads there; empty is for none. ProxyHeader
	// are headers that it gets with CONNECT, with commas between several values.
	Proxy       string
	ProxyHeader map[string]string
	// CA has the PEM of the certificates that sign the server's. Empty is for those
	// of the system.
	CA []byte
	// Insecure does without a check of the server's certificate.
	Insecure bool
}

// EndpointOf returns the endpoint that a ClusterConnection declares, with the CA
// of its Secret.
func EndpointOf(spec *fleetv1alpha1.ClusterConnectionSpec, ca []byte) Endpoint {
	return Endpoint{
		URL: strings.TrimSuffix(spec.APIEndpoint, "/"), Proxy: spec.ProxyURL, ProxyHeader: spec.ProxyHeader,
		CA: ca, Insecure: spec.InsecureSkipTLSVerification,
	}
}

// Equal reports whether both lead to the same place in the same way.
func (e Endpoint) Equal(other Endpoint) bool {
	return e.URL == other.URL && e.Proxy == other.Proxy && e.Insecure == other.Insecure &&
		maps.Equal(e.ProxyHeader, other.ProxyHeader) && bytes.Equal(e.CA, other.CA)
}

// baseURL returns the URL if it may be dialled. A host name is resolved and looked
// at when it is dialled.
func (e Endpoint) baseURL(guard AddressGuard) (*url.URL, error) {
	base, err := url.Parse(e.URL)
	if err != nil || base.Scheme != "https" || base.Hostname() == "" || base.User != nil {
		return nil, fmt.Errorf("spec.apiEndpoint %q is not a URL such as https://member.example.com:6443", e.URL)
	}
	if address, err := netip.ParseAddr(base.Hostname()); err == nil {
		if err := guard.CheckAddress(address); err != nil { // a proxy would dial it for us
			return nil, err
		}
	}
	return base, nil
}

// trustFor returns whom to agree with on TLS at a host.
func (e Endpoint) trustFor(host string) (handshake.ServerTrust, error) {
	trust := handshake.ServerTrust{Host: host, Anyone: e.Insecure}
	switch {
	case len(e.CA) > 0 && e.Insecure:
		return trust, fmt.Errorf("spec.insecureSkipTLSVerification is true, and the Secret has %s: these contradict each other; remove one of the two", fleetv1alpha1.SecretKeyCABundle)
	case len(e.CA) > 0:
		pool, err := certs.NewPool(e.CA)
		if err != nil {
			return trust, fmt.Errorf("%s of the Secret %w", fleetv1alpha1.SecretKeyCABundle, err)
		}
		trust.Authorities = pool
	}
	return trust, nil
}

// useProxy makes a transport go by the proxy, or by none: the hub's own proxy
// variables are not for members.
func (e Endpoint) useProxy(transport *http.Transport, turns *handshake.DecodeTurns) error {
	if e.Proxy == "" {
		transport.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
		return nil
	}
	proxy, err := url.Parse(e.Proxy)
	if err != nil || proxy.Hostname() == "" {
		return fmt.Errorf("spec.proxyURL %q is not a URL such as http://proxy.example.com:3128", e.Proxy)
	}
	if proxy.Scheme == "https" {
		trust, err := e.trustFor(proxy.Hostname())
		if err != nil {
			return err
		}
		transport.DialContext = dialSecurely(transport.DialContext, trust, turns)
		proxy.Host = net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), "443"))
		proxy.Scheme = "http" // over what is dialled: the transport has one configuration of TLS, which is for the cluster
	}
	transport.Proxy = http.ProxyURL(proxy)
	transport.ProxyConnectHeader = http.Header{}
	for key, values := range e.ProxyHeader {
		for value := range strings.SplitSeq(values, ",") {
			transport.ProxyConnectHeader.Add(key, strings.TrimSpace(value))
		}
	}
	return nil
}

// dialSecurely returns dial with TLS on each connection, over which TLS with another server can be agreed on.
func dialSecurely(dial handshake.DialFunc, trust handshake.ServerTrust, turns *handshake.DecodeTurns) handshake.DialFunc {
	config := trust.ClientConfig()
	config.ServerName = trust.Host
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err //nolint:wrapcheck // the transport says that it is about the proxy
		}
		return turns.BoundConn(secure), nil
	}
}
