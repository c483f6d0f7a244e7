// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/longkey"
)

// member is an API server that says which token it was sent.
func member(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, ca []byte) {
	t.Helper()
	server = httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func toLocal() AddressGuard {
	return AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func transportTo(t *testing.T, to Endpoint, guard AddressGuard) *Transport {
	t.Helper()
	transport, err := NewTransport(to, TransportOptions{Guard: guard, Doubt: func() {}})
	expect.NoError(t, err)
	transport.SetToken("secret")
	t.Cleanup(transport.Close)
	return transport
}

func TestARedirectDoesNotLeadTheHubOrTheTokenAstray(t *testing.T) {
	var reached atomic.Int32
	inside, _ := member(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	evil, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL+"/latest", http.StatusFound)
	})
	transport := transportTo(t, Endpoint{URL: evil.URL, CA: ca}, toLocal())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, evil.URL+"/api", nil)
	expect.NoError(t, err)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, errRedirect) {
		t.Errorf("got error %v, want %q", err, errRedirect)
	}
	request.URL.Host = strings.TrimPrefix(inside.URL, "https://")
	if _, err := transport.RoundTrip(request); !errors.Is(err, errElsewhere) { //nolint:bodyclose // there is none
		t.Errorf("a request for another host: got error %v, want %q", err, errElsewhere)
	}
	if reached.Load() != 0 {
		t.Error("the other host was reached")
	}
}

// TestARedirectDoesNotChooseTheLimits has a member redirect to a path of its choice, of
// which nobody would know that nodes are in the answer, with quantities.
func TestARedirectDoesNotChooseTheLimits(t *testing.T) {
	const nodes = `{"apiVersion":"v1","kind":"NodeList","items":[{"status":{"capacity":{"cpu":"1e-1000"}}}]}`
	for _, status := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			read, err := clientsOf(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					says("application/json", nodes)(w, r)
					return
				}
				http.Redirect(w, r, "/elsewhere", status)
			}).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if !errors.Is(err, errRedirect) {
				t.Errorf("read %v with error %v, want %q", read, err, errRedirect)
			}
		})
	}
}

func TestABlockedTransportSendsProbesOnly(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer renewed" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	if found := transport.ProbeHealth(t.Context()); found.Reason != fleetv1alpha1.ClusterConnectionReasonUnauthorized {
		t.Errorf("the probe with a bad token finds %v, want Unauthorized", found)
	}
	why := errors.New("why")
	transport.BlockRequests(why)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	expect.NoError(t, err)
	if _, err := transport.RoundTrip(request); !errors.Is(err, why) { //nolint:bodyclose // there is none
		t.Errorf("a request on a blocked transport: %v, want %v", err, why)
	}
	transport.SetToken("renewed")
	if found := transport.ProbeHealth(t.Context()); !found.IsNone() {
		t.Errorf("the probe with the new token finds %v", found)
	}
	transport.BlockRequests(nil)
	response, err := transport.RoundTrip(request)
	expect.NoError(t, err)
	_ = response.Body.Close()
}

func TestEachKindOfProxyLeadsToTheMember(t *testing.T) {
	var header atomic.Pointer[http.Header]
	connect := func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Clone()
		header.Store(&got)
		tunnel(w, r)
	}
	server, ca := member(t, func(http.ResponseWriter, *http.Request) {})
	plain := httptest.NewServer(http.HandlerFunc(connect))
	defer plain.Close()
	secure, _ := member(t, connect) // all test servers have the same certificate
	cases := map[string]struct {
		proxy  string
		header map[string]string
	}{
		"http":   {proxy: plain.URL, header: map[string]string{"X-One": "1", "X-Two": "a, b"}},
		"https":  {proxy: secure.URL, header: map[string]string{"X-One": "1", "X-Two": "a, b"}},
		"socks5": {proxy: "socks5://" + socks(t)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			header.Store(nil)
			transport := transportTo(t, Endpoint{URL: server.URL, CA: ca, Proxy: c.proxy, ProxyHeader: c.header}, toLocal())
			if found := transport.ProbeHealth(t.Context()); !found.IsNone() {
				t.Fatalf("the member is not reached: %v", found)
			}
			if c.header == nil {
				return
			}
			got := header.Load()
			if got == nil {
				t.Fatal("the proxy was not asked")
			}
			if got.Get("X-One") != "1" || fmt.Sprint(got.Values("X-Two")) != "[a b]" {
				t.Errorf("the proxy got the headers %v", *got)
			}
			if got.Get("Authorization") != "" {
				t.Error("the proxy got the token")
			}
		})
		t.Run(name+" in a forbidden place", func(t *testing.T) {
			transport := transportTo(t, Endpoint{URL: "https://member.example.com", CA: ca, Proxy: c.proxy}, AddressGuard{})
			if found := transport.ProbeHealth(t.Context()); found.Reason != fleetv1alpha1.ClusterConnectionReasonForbiddenAddress {
				t.Errorf("found %v, want ForbiddenAddress", found)
			}
		})
	}
	if _, err := NewTransport(Endpoint{URL: "https://169.254.169.254", Proxy: plain.URL}, TransportOptions{Guard: toLocal(), Doubt: func() {}}); err == nil {
		t.Error("a proxy may be asked for an address that must not be dialled")
	}
}

// tunnel is what a proxy does for CONNECT.
func tunnel(w http.ResponseWriter, r *http.Request) {
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	join(here, there)
}

func join(a, b net.Conn) {
	go func() {
		_, _ = io.Copy(a, b)
		_ = a.Close()
	}()
	_, _ = io.Copy(b, a)
	_ = b.Close()
}

// socks is a SOCKS5 proxy that takes IPv4 addresses and no credentials.
func socks(t *testing.T) (address string) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				greeting, request := make([]byte, 3), make([]byte, 10)
				_, _ = io.ReadFull(here, greeting)
				_, _ = here.Write([]byte{5, 0})
				_, _ = io.ReadFull(here, request)
				host := net.IP(request[4:8]).String()
				port := strconv.Itoa(int(request[8])<<8 | int(request[9]))
				there, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
				if err != nil {
					_ = here.Close()
					return
				}
				_, _ = here.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
				join(here, there)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestWhoGivesCertificatesDoesNotSkipTheCheck(t *testing.T) {
	_, ca := member(t, func(http.ResponseWriter, *http.Request) {})
	_, err := NewTransport(Endpoint{URL: "https://member.example.com", CA: ca, Insecure: true}, TransportOptions{Guard: AddressGuard{}, Doubt: func() {}})
	if err == nil || !strings.Contains(err.Error(), "caBundle") || !strings.Contains(err.Error(), "insecureSkipTLSVerification") {
		t.Errorf("got error %v, want one that names both", err)
	}
	if found := ExplainEndpoint(err); found.Reason != fleetv1alpha1.ClusterConnectionReasonInvalidEndpoint {
		t.Errorf("it is told as %v, want InvalidEndpoint", found)
	}
}

func TestAnAuthorityOfAMegabitIsNotUsed(t *testing.T) {
	_, err := NewTransport(Endpoint{URL: "https://member.example.com", CA: longkey.AuthorityPEM(t, 1<<20)}, TransportOptions{Guard: AddressGuard{}, Doubt: func() {}})
	if err == nil {
		t.Fatal("it is used")
	}
	if !strings.Contains(err.Error(), "caBundle of the Secret contains a certificate") || ExplainEndpoint(err).Reason != fleetv1alpha1.ClusterConnectionReasonInvalidEndpoint {
		t.Errorf("got error %v, told as %v", err, ExplainEndpoint(err))
	}
}

// showing starts a server that shows a certificate of its own, and returns that as PEM.
func showing(t *testing.T, template *x509.Certificate, handler http.HandlerFunc) (server *httptest.Server, ca []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(t, err)
	template.SerialNumber = big.NewInt(1)
	template.NotAfter = time.Now().Add(time.Hour)
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	expect.NoError(t, err)
	server = httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
}

// TestALongChainIsNotKept has a member show a certificate with addresses without number, each of which a connection
// would keep decoded, also behind a proxy.
func TestALongChainIsNotKept(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(tunnel))
	t.Cleanup(plain.Close)
	secure, _ := member(t, tunnel)
	for count, why := range map[int]string{1: "", 10_000: "its certificates have", 40_000: "before TLS is agreed on"} {
		template := &x509.Certificate{}
		for range count {
			template.URIs = append(template.URIs, &url.URL{Scheme: "a", Opaque: "b"})
		}
		server, _ := showing(t, template, func(http.ResponseWriter, *http.Request) {})
		for _, proxy := range []string{"", plain.URL, secure.URL} {
			found := transportTo(t, Endpoint{URL: server.URL, Insecure: true, Proxy: proxy}, toLocal()).ProbeHealth(t.Context())
			if found.IsNone() != (why == "") || why != "" && (found.Reason != fleetv1alpha1.ClusterConnectionReasonUnreachable || !strings.Contains(found.Message, why)) {
				t.Errorf("by proxy %q, the probe of a server with %d URIs finds %v, want %q", proxy, count, found, why)
			}
		}
	}
}

// TestNobodyIsTakenForTheMember has a proxy and a member with a certificate of their own each.
func TestNobodyIsTakenForTheMember(t *testing.T) {
	byAddress := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	byName := &x509.Certificate{DNSNames: []string{"localhost"}}
	answers := func(http.ResponseWriter, *http.Request) {}
	server, ca := showing(t, byAddress, answers)
	other, otherCA := showing(t, byName, answers)
	plain := httptest.NewServer(http.HandlerFunc(tunnel))
	t.Cleanup(plain.Close)
	proxy, proxyCA := showing(t, byName, tunnel)
	named := strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1)
	authorities := bytes.Join([][]byte{ca, otherCA, proxyCA}, nil)
	for name, tc := range map[string]struct {
		url, proxy, untrusted string
	}{
		"the member":                   {url: server.URL},
		"by a proxy":                   {url: server.URL, proxy: plain.URL},
		"by a proxy with TLS":          {url: server.URL, proxy: named},
		"another":                      {url: other.URL, untrusted: "because it doesn't contain any IP SANs"},
		"another, by a proxy":          {url: other.URL, proxy: plain.URL, untrusted: "because it doesn't contain any IP SANs"},
		"another, by a proxy with TLS": {url: other.URL, proxy: named, untrusted: "because it doesn't contain any IP SANs"},
		"by another's proxy":           {url: server.URL, proxy: proxy.URL, untrusted: "because it doesn't contain any IP SANs"},
		"the name of another":          {url: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), untrusted: "certificate is not valid for any names"},
	} {
		t.Run(name, func(t *testing.T) {
			found := transportTo(t, Endpoint{URL: tc.url, CA: authorities, Proxy: tc.proxy}, toLocal()).ProbeHealth(t.Context())
			if found.IsNone() != (tc.untrusted == "") {
				t.Fatalf("the probe finds %v", found)
			}
			if !found.IsNone() && (found.Reason != fleetv1alpha1.ClusterConnectionReasonUntrusted || !strings.Contains(found.Message, tc.untrusted)) {
				t.Errorf("the probe finds %v, want that it is not trusted: %s", found, tc.untrusted)
			}
		})
	}
}
