// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// Proxy is an API server that misbehaves when it is told to. Who authenticates
// by a certificate is who the proxy says to the real one.
type Proxy struct {
	Address string
	CA      []byte
	server  *http.Server
	// Writes counts the requests for objects of works that change something.
	Writes atomic.Int64

	mu sync.Mutex
	// answer, if set, answers instead of the real API server if it returns true.
	answer func(http.ResponseWriter, *http.Request) bool
	// open is closed as long as bytes get through.
	open    chan struct{}
	watches map[*http.Request]context.CancelFunc
}

// LoseAnswer is a header by which misbehave has a request done and its answer lost.
const LoseAnswer = "Test-Lose-Answer"

var quiet = log.New(io.Discard, "", 0)

// startProxy starts a proxy for a cluster that lasts as long as the test.
func startProxy(t testing.TB, cluster *fleet.Cluster) *Proxy {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		Address: "https://" + listener.Addr().String(), CA: certificate,
		open: make(chan struct{}), watches: map[*http.Request]context.CancelFunc{},
	}
	close(p.open)
	p.server = &http.Server{
		ErrorLog:  quiet,
		Handler:   p.handler(t, cluster),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	go func() {
		if err := p.server.ServeTLS(gatedListener{listener, p}, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the proxy ended with %v", err)
		}
	}()
	t.Cleanup(func() { _ = p.server.Close() })
	return p
}

func (p *Proxy) handler(t testing.TB, cluster *fleet.Cluster) http.Handler {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := rest.TransportFor(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := rest.TransportFor(rest.AnonymousClientConfig(cluster.Config))
	if err != nil {
		t.Fatal(err)
	}
	forward := func(transport http.RoundTripper) *httputil.ReverseProxy {
		return &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     transport,
			FlushInterval: -1,
			ErrorLog:      quiet, // errors are what this is for
			ModifyResponse: func(r *http.Response) error {
				if r.Request.Header.Get(LoseAnswer) != "" {
					return errors.New("the answer is lost")
				}
				return nil
			},
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		}
	}
	asAdmin, asNobody := forward(admin), forward(nobody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		answer := p.answer
		p.mu.Unlock()
		if answer != nil && answer(w, r) {
			return
		}
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases/") {
			p.Writes.Add(1)
		}
		if r.URL.Query().Get("watch") != "" {
			var forget func()
			r, forget = p.noteWatch(r)
			defer forget()
		}
		if r.Header.Get("Authorization") != "" || len(r.TLS.PeerCertificates) == 0 {
			asNobody.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Impersonate-User") == "" {
			subject := r.TLS.PeerCertificates[0].Subject
			r.Header.Set("Impersonate-User", subject.CommonName)
			for _, group := range subject.Organization {
				r.Header.Add("Impersonate-Group", group)
			}
		}
		asAdmin.ServeHTTP(w, r)
	})
}

func (p *Proxy) noteWatch(r *http.Request) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[r] = cancel
	return r, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, r)
	}
}

// DropWatches ends all watches in the middle of what they say.
func (p *Proxy) DropWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.watches {
		cancel()
	}
}

// Misbehave makes the function answer until it is nil again.
func (p *Proxy) Misbehave(answer func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// Cut stops all bytes, as a network does that drops packets.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// Mend lets them through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.open)
}

func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// cluster is what a kubeconfig says of the proxy.
func (p *Proxy) cluster() *clientcmdapi.Cluster {
	return &clientcmdapi.Cluster{Server: p.Address, CertificateAuthorityData: p.CA}
}

// gatedListener accepts connections that wait while the network is cut.
type gatedListener struct {
	net.Listener
	proxy *Proxy
}

func (l gatedListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gatedConn{connection, l.proxy}, nil
}

type gatedConn struct {
	net.Conn
	proxy *Proxy
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	<-c.proxy.gate()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	<-c.proxy.gate()
	return c.Conn.Write(b)
}

// Status answers as an API server does.
func Status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
}

func writeFile(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
