// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestTLS(t *testing.T) {
	cases := map[string]struct {
		server     ServerOptions
		wantMin    uint16
		wantSuites int
		wantErr    bool
	}{
		"TLS 1.2 is the least by default":  {server: DefaultServer(), wantMin: tls.VersionTLS12},
		"TLS 1.3 can be asked for":         {server: ServerOptions{TLSMinVersion: "VersionTLS13"}, wantMin: tls.VersionTLS13},
		"an old version is refused":        {server: ServerOptions{TLSMinVersion: "VersionTLS10"}, wantErr: true},
		"a secure suite is taken":          {server: ServerOptions{TLSCipherSuites: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}}, wantMin: tls.VersionTLS12, wantSuites: 1},
		"an insecure suite is refused":     {server: ServerOptions{TLSCipherSuites: []string{"TLS_RSA_WITH_RC4_128_SHA"}}, wantErr: true},
		"a suite that is none is refused ": {server: ServerOptions{TLSCipherSuites: []string{"ROT13"}}, wantErr: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := c.server.TLSConfigurer()
			if (err != nil) != c.wantErr {
				t.Fatalf("error %v, want one: %t", err, c.wantErr)
			}
			if err != nil {
				return
			}
			config := &tls.Config{MinVersion: tls.VersionTLS12}
			set(config)
			if config.MinVersion != c.wantMin || len(config.CipherSuites) != c.wantSuites {
				t.Errorf("version %x with %d suites, want %x with %d", config.MinVersion, len(config.CipherSuites), c.wantMin, c.wantSuites)
			}
		})
	}
}

func TestZeroIsNoLimit(t *testing.T) {
	if got := LimitRequests(&rest.Config{}, 0, 0); got.QPS >= 0 {
		t.Errorf("QPS %v: client-go takes that for a limit", got.QPS)
	}
	limited := LimitRequests(&rest.Config{}, 50, 100)
	if limited.QPS != 50 || limited.Burst != 100 {
		t.Errorf("QPS %v and burst %d, want 50 and 100", limited.QPS, limited.Burst)
	}
	if got := LimitRequests(limited, 0, 0); got.QPS >= 0 || got.RateLimiter != nil {
		t.Errorf("the limit of before is still there: %+v", got)
	}
}

func TestAllClientsOfAConfigShareItsLimit(t *testing.T) {
	var answered atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answered.Add(1)
		_, _ = w.Write([]byte(`{"major":"1"}`))
	}))
	defer server.Close()
	// One request an hour, and two at once.
	config := LimitRequests(&rest.Config{Host: server.URL}, 1.0/3600, 2)
	ask := func() error {
		clients, err := kubernetes.NewForConfig(rest.CopyConfig(config))
		expect.NoError(t, err)
		// A request that would have to wait for longer than this fails at once.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return clients.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}
	for range 2 {
		if err := ask(); err != nil {
			t.Fatalf("two requests are allowed: %v", err)
		}
	}
	if err := ask(); err == nil || answered.Load() != 2 {
		t.Errorf("a third request of another client has to wait; %d were answered, error %v", answered.Load(), err)
	}
}

func TestOutsideOfAPodTheErrorNamesTheFlagAndNothingIsLogged(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var log strings.Builder
	klog.SetLoggerWithOptions(funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{}))
	t.Cleanup(klog.ClearLogger)
	_, err := (&ClientOptions{}).ClientConfig()
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("got the error %v, want one that names --kubeconfig", err)
	}
	if log.Len() > 0 {
		t.Errorf("client-go logged %q, want nothing", log.String())
	}
}
