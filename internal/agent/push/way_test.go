// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestTheGuardKeepsTheHubFromDiallingItself(t *testing.T) {
	guard := Guard{
		Forbidden: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10::/108")},
		Allowed:   []netip.Prefix{netip.MustParsePrefix("10.96.7.7/32")},
	}
	cases := map[string]struct {
		reason, address string
		refused         bool
	}{
		"another host":              {reason: "that is what the hub dials", address: "203.0.113.7"},
		"a private network":         {reason: "members are often in one", address: "192.168.1.1"},
		"IPv6":                      {reason: "that is what the hub dials", address: "2001:db8::1"},
		"loopback":                  {reason: "it is the hub", address: "127.0.0.1", refused: true},
		"another loopback":          {reason: "all of 127/8 is", address: "127.255.0.3", refused: true},
		"IPv6 loopback":             {reason: "it is the hub", address: "::1", refused: true},
		"loopback mapped into IPv6": {reason: "it is dialled as IPv4", address: "::ffff:127.0.0.1", refused: true},
		"loopback behind NAT64":     {reason: "it ends at IPv4", address: "64:ff9b::7f00:1", refused: true},
		"cloud metadata":            {reason: "it gives credentials away", address: "169.254.169.254", refused: true},
		"link-local with a zone":    {reason: "it is this link", address: "fe80::1%eth0", refused: true},
		"unspecified":               {reason: "it means this host", address: "0.0.0.0", refused: true},
		"IPv6 unspecified":          {reason: "it means this host", address: "::", refused: true},
		"multicast":                 {reason: "no API server has it", address: "224.0.0.1", refused: true},
		"a Service":                 {reason: "Services of the hub are not for members", address: "10.96.0.1", refused: true},
		"a Service, mapped":         {reason: "it is dialled as IPv4", address: "::ffff:10.96.0.1", refused: true},
		"an IPv6 Service":           {reason: "Services of the hub are not for members", address: "fd00:10::5", refused: true},
		"an allowed Service":        {reason: "the administrator said so", address: "10.96.7.7"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := guard.Check(netip.MustParseAddr(c.address))
			var forbidden *ForbiddenAddressError
			if refused := errors.As(err, &forbidden); refused != c.refused {
				t.Errorf("%s: got %v, want refused=%t", c.reason, err, c.refused)
			}
		})
	}
}

// member is an API server that says which token it was sent.
func member(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, ca []byte) {
	t.Helper()
	server = httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func toLocal() Guard { return Guard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}} }

func wayTo(t *testing.T, to target, guard Guard) *way {
	t.Helper()
	w, err := newWay(to, guard, func() {})
	if err != nil {
		t.Fatal(err)
	}
	w.setToken("secret")
	t.Cleanup(w.close)
	return w
}

func TestARedirectDoesNotLeadTheHubOrTheTokenAstray(t *testing.T) {
	var reached atomic.Int32
	inside, _ := member(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	evil, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL+"/latest", http.StatusFound)
	})
	w := wayTo(t, target{endpoint: evil.URL, ca: ca, insecure: true}, toLocal())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, evil.URL+"/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: w}).Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, errElsewhere) {
		t.Errorf("got error %v, want %q", err, errElsewhere)
	}
	if reached.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

func TestABlockedWaySendsProbesOnly(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer renewed" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	w := wayTo(t, target{endpoint: server.URL, ca: ca}, toLocal())
	if found := w.probe(t.Context()); found.reason != fleetv1alpha1.ClusterConnectionReasonUnauthorized {
		t.Errorf("the probe with a bad token finds %v, want Unauthorized", found)
	}
	why := errors.New("why")
	w.block(why)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.RoundTrip(request); !errors.Is(err, why) { //nolint:bodyclose // there is none
		t.Errorf("a request on a blocked way: %v, want %v", err, why)
	}
	w.setToken("renewed")
	if found := w.probe(t.Context()); !found.well() {
		t.Errorf("the probe with the new token finds %v", found)
	}
	w.block(nil)
	response, err := w.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
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
			w := wayTo(t, target{endpoint: server.URL, ca: ca, proxy: c.proxy, header: c.header}, toLocal())
			if found := w.probe(t.Context()); !found.well() {
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
			w := wayTo(t, target{endpoint: "https://member.example.com", ca: ca, proxy: c.proxy}, Guard{})
			if found := w.probe(t.Context()); found.reason != fleetv1alpha1.ClusterConnectionReasonForbiddenAddress {
				t.Errorf("found %v, want ForbiddenAddress", found)
			}
		})
	}
	if _, err := newWay(target{endpoint: "https://169.254.169.254", proxy: plain.URL}, toLocal(), func() {}); err == nil {
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
	if err != nil {
		t.Fatal(err)
	}
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

func TestACredentialIsTakenOutOfTheSecretOrTheReasonIsTold(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	token := func(expires int64) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires)) + ".x"
	}
	secret := func(token string) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{"token": []byte(token)}}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	cases := map[string]struct {
		reason string
		secret *corev1.Secret
		err    error
		want   string // the reason of the condition; empty if it is good
	}{
		"opaque":       {reason: "not all tokens tell when they expire", secret: secret("abc\n")},
		"valid":        {reason: "it has not expired", secret: secret(token(1_000_001))},
		"expired":      {reason: "the time is over", secret: secret(token(1_000_000)), want: fleetv1alpha1.ClusterConnectionReasonTokenExpired},
		"empty":        {reason: "there is no token", secret: secret(" "), want: fleetv1alpha1.ClusterConnectionReasonSecretMissing},
		"two lines":    {reason: "it would be another header", secret: secret("a\r\nX: y"), want: fleetv1alpha1.ClusterConnectionReasonSecretMissing},
		"missing":      {reason: "there is no Secret", want: fleetv1alpha1.ClusterConnectionReasonSecretMissing},
		"forbidden":    {reason: "the agent may not read it", err: forbidden, want: fleetv1alpha1.ClusterConnectionReasonSecretForbidden},
		"other errors": {reason: "they say nothing of the token", err: errors.New("no luck"), want: fleetv1alpha1.ClusterConnectionReasonNotChecked},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, found := readCredential("c1/s", c.secret, c.err, now)
			if found.reason != c.want || (c.want == "") != (got.token != "") || strings.TrimSpace(got.token) != got.token {
				t.Errorf("%s: got %+v and %+v, want reason %q", c.reason, got, found, c.want)
			}
		})
	}
}
