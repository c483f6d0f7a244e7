// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package callout

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/untrusted/handshake"
)

const (
	// dialTimeout limits how long a connection takes, TLS apart.
	dialTimeout = 5 * time.Second
	// idleTimeout is how long a connection without calls is kept.
	idleTimeout = 90 * time.Second
	// headersMax limits the bytes of the headers of an answer.
	headersMax = 64 << 10
)

// ServiceRef is a Service of the hub.
type ServiceRef struct {
	Namespace, Name string
	Port            int32
}

// CertificateHost is the name that the certificate of the Service is for.
func (s ServiceRef) CertificateHost() string { return s.Name + "." + s.Namespace + ".svc" }

// Target is a server. It has either URL or Service.
type Target struct {
	// Name is unique among the targets of a caller.
	Name string
	URL  string
	// Service is called at Path.
	Service *ServiceRef
	Path    string
	// CABundle verifies its certificate; the CAs of the system do if it is empty.
	CABundle []byte
	// Timeout is how long a call may take.
	Timeout time.Duration
}

// isSameTarget reports whether two targets are called in the same way.
func (t Target) isSameTarget(other Target) bool {
	sameService := t.Service == other.Service || t.Service != nil && other.Service != nil && *t.Service == *other.Service
	return t.Name == other.Name && t.URL == other.URL && sameService && t.Path == other.Path &&
		t.Timeout == other.Timeout && bytes.Equal(t.CABundle, other.CABundle)
}

// callURL is the URL of the target.
func (t Target) callURL() string {
	if t.Service == nil {
		return t.URL
	}
	return (&url.URL{Scheme: "https", Host: net.JoinHostPort(t.Service.CertificateHost(), strconv.Itoa(int(t.Service.Port))), Path: t.Path}).String()
}

// ResolveFunc returns the address at which a Service can be reached, as host:port.
type ResolveFunc func(context.Context, ServiceRef) (address string, err error)

// newTransport returns what sends requests to the target.
func (t Target) newTransport(o CallerOptions) (*http.Transport, error) {
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(t.CABundle) > 0 {
		pool, err := certs.NewPool(t.CABundle)
		if err != nil {
			return nil, fmt.Errorf("clientConfig.caBundle %w", err)
		}
		trusted.RootCAs = pool
	}
	dialer, turns := &net.Dialer{Timeout: dialTimeout}, handshake.NewDecodeTurns()
	connect := turns.BoundDial(dialer.DialContext)
	proxy := http.ProxyFromEnvironment
	if o.Guard != nil {
		dialer.Control = o.Guard.ControlDial
		proxy = guardProxy(proxy, *o.Guard)
	}
	transport := &http.Transport{
		Proxy:       proxy,
		DialContext: connect, TLSClientConfig: trusted, TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns: callsMax, MaxIdleConnsPerHost: callsMax, MaxConnsPerHost: callsMax, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: headersMax, DisableCompression: true,
	}
	if t.Service != nil && o.Resolve == nil {
		return nil, errors.New("it is a Service of the hub, which cannot be called from here")
	}
	if t.Service != nil {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := o.Resolve(ctx, *t.Service)
			if err != nil {
				return nil, &resolveError{err}
			}
			return connect(ctx, network, address)
		}
	}
	return transport, nil
}

// guardProxy returns a choice of proxies that sends nothing to an address by a proxy that
// must not be dialled without one. Of a name, only the proxy learns the address.
func guardProxy(choose func(*http.Request) (*url.URL, error), by dial.AddressGuard) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := choose(r)
		if address, is := netip.ParseAddr(r.URL.Hostname()); proxy != nil && is == nil {
			if err := by.CheckAddress(address); err != nil {
				return nil, err
			}
		}
		return proxy, err
	}
}

// resolveError is that nobody knows where a Service is.
type resolveError struct{ error }

func (e *resolveError) Unwrap() error { return e.error }

// checkedURL returns the URL of a target, if it is one that may be called.
func (t Target) checkedURL() (*url.URL, error) {
	parsed, err := url.Parse(t.callURL())
	switch {
	case err != nil:
		return nil, errors.New("its URL cannot be read")
	case parsed.Scheme != "https" || parsed.Host == "":
		return nil, errors.New("its URL is none of HTTPS")
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, errors.New("its URL has credentials, a query or a fragment")
	}
	return parsed, nil
}
