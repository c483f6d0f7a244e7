// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/version"
)

const (
	// dialTimeout is how long it may take to reach a cluster, and handshakeTimeout
	// how long TLS may take.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// answerTimeout is how long a request may wait for the beginning of its answer.
	// The slowest are writes that webhooks of the cluster look at, for 30 s each at most.
	answerTimeout = 35 * time.Second
	keepAlive     = 30 * time.Second
)

// target is where a cluster is and how to get there. Equal ones share a way.
type target struct {
	endpoint, proxy string
	header          map[string]string
	ca              []byte
	insecure        bool
}

func targetOf(spec *fleetv1alpha1.ClusterConnectionSpec, ca []byte) target {
	return target{
		endpoint: strings.TrimSuffix(spec.APIEndpoint, "/"), proxy: spec.ProxyURL, header: spec.ProxyHeader,
		ca: ca, insecure: spec.InsecureSkipTLSVerification,
	}
}

func (t target) equal(other target) bool {
	return t.endpoint == other.endpoint && t.proxy == other.proxy && t.insecure == other.insecure &&
		maps.Equal(t.header, other.header) && bytes.Equal(t.ca, other.ca)
}

// way is the way to one cluster with a token that can be replaced at any time.
// It is safe for concurrent use.
type way struct {
	base      *url.URL
	transport *http.Transport
	token     atomic.Pointer[string]
	// blocked is why no request is sent; nil if requests are.
	blocked atomic.Pointer[error]
	// doubt is called when a request failed in a way that makes the cluster or the
	// token suspicious. It has to return at once.
	doubt func()
}

// newWay returns a way without dialling.
func newWay(t target, guard Guard, doubt func()) (*way, error) {
	base, err := url.Parse(t.endpoint)
	if err != nil || base.Scheme != "https" || base.Hostname() == "" || base.User != nil {
		return nil, fmt.Errorf("spec.apiEndpoint %q is not a URL such as https://member.example.com:6443", t.endpoint)
	}
	if address, err := netip.ParseAddr(base.Hostname()); err == nil {
		if err := guard.Check(address); err != nil { // a proxy would dial it for us
			return nil, err
		}
	}
	tlsConfig := &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.insecure, //nolint:gosec // only if the ClusterConnection says so
	}
	if len(t.ca) > 0 {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(t.ca) {
			return nil, fmt.Errorf("%s of the Secret has no PEM encoded certificate", fleetv1alpha1.SecretKeyCABundle)
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: guard.control}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: handshakeTimeout,
		ResponseHeaderTimeout: answerTimeout, MaxIdleConnsPerHost: 2, Proxy: noProxy,
	}
	if t.proxy != "" {
		proxy, err := url.Parse(t.proxy)
		if err != nil || proxy.Hostname() == "" {
			return nil, fmt.Errorf("spec.proxyURL %q is not a URL such as http://proxy.example.com:3128", t.proxy)
		}
		transport.Proxy = http.ProxyURL(proxy)
		transport.ProxyConnectHeader = headerOf(t.header)
	}
	utilnet.SetTransportDefaults(transport) // HTTP/2 with pings, so that a dead connection is noticed
	w := &way{base: base, transport: transport, doubt: doubt}
	w.setToken("")
	return w, nil
}

// noProxy keeps the hub's own proxy variables away from members.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// headerOf splits values at commas.
func headerOf(header map[string]string) http.Header {
	all := http.Header{}
	for key, values := range header {
		for value := range strings.SplitSeq(values, ",") {
			all.Add(key, strings.TrimSpace(value))
		}
	}
	return all
}

func (w *way) setToken(token string) { w.token.Store(&token) }

// block makes all requests fail with the error, but probes; nil ends that.
func (w *way) block(why error) {
	if why == nil {
		w.blocked.Store(nil)
		return
	}
	w.blocked.Store(&why)
}

// config returns a configuration for clients that go this way.
func (w *way) config() *rest.Config {
	return &rest.Config{Host: w.base.String(), Transport: w, QPS: -1, UserAgent: "capstan-push-agent/" + version.Get()}
}

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(request *http.Request) (*http.Response, error) {
	if why := w.blocked.Load(); why != nil {
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read of it
		}
		return nil, *why
	}
	response, err := w.send(request)
	switch {
	case err != nil && request.Context().Err() == nil, err == nil && response.StatusCode == http.StatusUnauthorized:
		w.doubt()
	}
	return response, err
}

// errElsewhere says that a cluster wanted to send us to another host, which
// would be dialled by the hub and get the token.
var errElsewhere = errors.New("the API server redirects to another host, which is not followed")

// send sends a request with the token, and to the cluster only.
func (w *way) send(request *http.Request) (*http.Response, error) {
	if request.URL.Host != w.base.Host || request.URL.Scheme != w.base.Scheme {
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read of it
		}
		return nil, errElsewhere
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+*w.token.Load())
	return w.transport.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (w *way) WrappedRoundTripper() http.RoundTripper { return w.transport }

func (w *way) close() { w.transport.CloseIdleConnections() }
