// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// patience is how long something may take on a busy machine that has to come.
const patience = 5 * time.Minute

// start serves until the test ends, and returns where. Nothing ends because of its time, so
// that what ends does so because of another bound.
func start(t *testing.T, o ListenOptions) string {
	t.Helper()
	o.Address = "127.0.0.1:0"
	o.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server, err := NewListeningServer(o)
	expect.NoError(t, err)
	server.Server.ReadHeaderTimeout, server.Server.ReadTimeout, server.Server.WriteTimeout = 0, 0, 0
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return server.Listener.Addr().String()
}

// probe asks as a kubelet does, from an address, with a connection of its own.
func probe(t *testing.T, url, from string, header int) (status int, err error) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Long", strings.Repeat("x", header))
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestHeadersAreBounded(t *testing.T) {
	address := start(t, ListenOptions{Name: "test"})
	for header, want := range map[int]int{10: http.StatusOK, 20 << 10: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		if got, err := probe(t, "http://"+address, "127.0.0.1", header); got != want || err != nil {
			t.Errorf("with a header of %d bytes, got status %d (%v), want %d", header, got, err, want)
		}
	}
}

// TestNobodyKeepsAProbeOut has somebody hold all the connections that a server takes, and
// more, with and without TLS, while a kubelet asks from another address, or from the same.
func TestNobodyKeepsAProbeOut(t *testing.T) {
	const most = 20
	for scheme, config := range map[string]*tls.Config{
		"http": nil, "https": {MinVersion: tls.VersionTLS12, GetCertificate: certs.NewSelfSigned("test", clock.RealClock{}).GetCertificate},
	} {
		t.Run(scheme, func(t *testing.T) {
			address := start(t, ListenOptions{Name: "test", TLS: config, ConnectionsMax: most})
			var held []net.Conn
			for i := range 3 * most {
				dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.0.%d", 2+i%2))}}
				connection, err := dialer.DialContext(t.Context(), "tcp", address)
				expect.NoError(t, err)
				defer connection.Close() //nolint:errcheck // the test is over
				held = append(held, connection)
			}
			for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
				if got, err := probe(t, scheme+"://"+address, from, 10); got != http.StatusOK || err != nil {
					t.Errorf("a probe from %s gets status %d (%v)", from, got, err)
				}
			}
			// Those that came first have ended.
			for i, connection := range held[:2*most] {
				expect.NoError(t, connection.SetReadDeadline(time.Now().Add(patience)))
				if _, err := connection.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("connection %d of %d is still there (%v)", i, len(held), err)
				}
			}
		})
	}
}

// TestWhoHasMostLosesAConnection looks at the decision alone.
func TestWhoHasMostLosesAConnection(t *testing.T) {
	c := &boundedListener{most: 5, byAddress: map[string][]*boundedConn{}}
	add := func(name string) (lost string) {
		excess := c.addConnection(&boundedConn{of: c, address: name})
		if excess == nil {
			return ""
		}
		return fmt.Sprint(excess.address, excess.number)
	}
	for i, step := range []struct{ of, lost string }{
		{"kubelet", ""}, {"pod", ""}, {"pod", ""}, {"pod", ""}, {"other", ""}, // 1 to 5
		{"other", "pod2"}, {"other", "pod3"}, {"pod", "other5"}, {"kubelet", "pod4"}, {"other", "kubelet1"},
	} {
		if lost := add(step.of); lost != step.lost {
			t.Errorf("connection %d, of %s: %q is lost, want %q", i+1, step.of, lost, step.lost)
		}
	}
	if c.open != 5 {
		t.Errorf("%d are open, want 5", c.open)
	}
	for name := range c.byAddress {
		for of := c.byAddress[name]; len(of) > 0; of = c.byAddress[name] {
			first := of[0]
			c.dropConnection(first)
			c.dropConnection(first) // once more than it counts
		}
	}
	if c.open != 0 || len(c.byAddress) != 0 {
		t.Errorf("%d are open of %d addresses after all have ended", c.open, len(c.byAddress))
	}
}

// TestAPIServersCloseFirst has an API server keep a connection to a webhook as long as its transport does.
func TestAPIServersCloseFirst(t *testing.T) {
	server, err := NewListeningServer(ListenOptions{Address: "127.0.0.1:0"})
	expect.NoError(t, err)
	defer func() { _ = server.Listener.Close() }()
	if theirs := utilnet.SetOldTransportDefaults(&http.Transport{}).IdleConnTimeout; theirs == 0 || server.Server.IdleTimeout < theirs+15*time.Second {
		t.Errorf("the server keeps a connection for %s, and API servers for %s", server.Server.IdleTimeout, theirs)
	}
}
