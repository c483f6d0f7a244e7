// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/longkey"
)

func authority(t *testing.T, name string) *certs.CertificatePair {
	t.Helper()
	pair, err := certs.NewAuthority(name, time.Now())
	expect.NoError(t, err)
	return pair
}

// serve starts a server with a certificate of the signer, and returns its URL.
func serve(t *testing.T, signer *certs.CertificatePair, answer http.HandlerFunc) string {
	t.Helper()
	leaf, err := certs.NewServing(signer, []string{"127.0.0.1"}, time.Now())
	expect.NoError(t, err)
	pair, err := tls.X509KeyPair(leaf.CertPEM, leaf.KeyPEM)
	expect.NoError(t, err)
	server := httptest.NewUnstartedServer(answer)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// publishes answers with cluster-info, with the bundle for each of the clusters.
func publishes(t *testing.T, bundle []byte, clusters ...string) http.HandlerFunc {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for _, name := range append([]string{""}, clusters...) {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://elsewhere", CertificateAuthorityData: bundle}
	}
	kubeconfig, err := clientcmd.Write(*config)
	expect.NoError(t, err)
	body, err := json.Marshal(corev1.ConfigMap{Data: map[string]string{"kubeconfig": string(kubeconfig)}})
	expect.NoError(t, err)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != publishedPath || len(r.TLS.PeerCertificates) > 0 || r.Header.Get("Authorization") != "" {
			t.Errorf("%s was asked for, with %d certificates and Authorization %q", r.URL, len(r.TLS.PeerCertificates), r.Header.Get("Authorization"))
		}
		_, _ = w.Write(body)
	}
}

func TestPublishedAuthoritiesAreTakenOverIfTheyVerifyTheHub(t *testing.T) {
	before, after, other := authority(t, "old"), authority(t, "new"), authority(t, "other")
	join := func(pairs ...*certs.CertificatePair) (bundle []byte) {
		for _, p := range pairs {
			bundle = append(bundle, p.CertPEM...)
		}
		return bundle
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	many := join(before)
	for range publishedMax {
		many = append(many, authority(t, "one of many").CertPEM...)
	}
	for name, c := range map[string]struct {
		signer *certs.CertificatePair // of the server
		ca     []byte
		answer http.HandlerFunc
		want   []byte
		// problem is in the error; none is for ErrNotPublished if that is silent.
		problem string
		silent  bool
	}{
		"another one beside the present": {signer: before, ca: join(before), answer: publishes(t, join(before, after)), want: join(before, after)},
		"each once":                      {signer: before, ca: join(before), answer: publishes(t, join(before, after, after)), want: join(before, after)},
		"the old one is dropped":         {signer: after, ca: join(before, after), answer: publishes(t, join(after)), want: join(after)},
		"the same":                       {signer: before, ca: join(before), answer: publishes(t, join(before))},
		"the same in another order":      {signer: before, ca: join(before, after), answer: publishes(t, join(after, before))},
		"somebody in between":            {signer: other, ca: join(before), answer: publishes(t, join(before, other)), problem: "certificate signed by unknown authority"},
		"something in front with a certificate of its own": {
			signer: before, ca: join(before), answer: publishes(t, join(after)), problem: "do not verify its own certificate",
		},
		"nothing":               {signer: before, ca: join(before), answer: publishes(t, nil), silent: true},
		"spaces":                {signer: before, ca: join(before), answer: publishes(t, []byte(" \n")), problem: "there is no certificate among them"},
		"garbage":               {signer: before, ca: join(before), answer: publishes(t, []byte("garbage")), problem: "something other than certificates"},
		"garbage at the end":    {signer: before, ca: join(before), answer: publishes(t, append(join(before, after), "garbage"...)), problem: "something other than certificates"},
		"a key":                 {signer: before, ca: join(before), answer: publishes(t, append(join(before), after.KeyPEM...)), problem: "reading a certificate"},
		"a key of a megabit":    {signer: before, ca: join(before), answer: publishes(t, append(join(before), longkey.AuthorityPEM(t, 1<<20)...)), problem: "its RSA key has 1048576 bits"},
		"very many":             {signer: before, ca: join(before), answer: publishes(t, many), problem: "they are 17, and may be 16"},
		"two clusters":          {signer: before, ca: join(before), answer: publishes(t, join(before, after), "other"), problem: "has 2 clusters"},
		"no ConfigMap":          {signer: before, ca: join(before), answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, problem: "is not a ConfigMap"},
		"it never ends":         {signer: before, ca: join(before), answer: publishes(t, []byte(strings.Repeat("x", publishedBytes))), problem: "more than 262144 bytes"},
		"forbidden":             {signer: before, ca: join(before), answer: status(http.StatusForbidden), silent: true},
		"not found":             {signer: before, ca: join(before), answer: status(http.StatusNotFound), silent: true},
		"a redirect":            {signer: before, ca: join(before), answer: http.RedirectHandler("https://evil.example.com", http.StatusFound).ServeHTTP, silent: true},
		"an agent without a CA": {signer: before, answer: func(http.ResponseWriter, *http.Request) { t.Error("the hub was asked") }, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := HubEndpoint{Server: serve(t, c.signer, c.answer), CA: c.ca}
			got, err := PublishedCA(t.Context(), endpoint, time.Now())
			if !slices.Equal(certs.PublicKeyPins(got), certs.PublicKeyPins(c.want)) {
				t.Errorf("taken over are %v, want %v", certs.PublicKeyPins(got), certs.PublicKeyPins(c.want))
			}
			switch {
			case c.silent:
				if !errors.Is(err, ErrNotPublished) {
					t.Errorf("error %v, want that nothing is published", err)
				}
			case c.problem == "":
				if err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), c.problem):
				t.Errorf("error %v, want %q in it", err, c.problem)
			}
		})
	}
}

func TestAHubTakesAnotherCAOver(t *testing.T) {
	before, after := authority(t, "old"), authority(t, "new")
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	own, err := certs.NewLeaf(before, certs.Leaf{User: "agent"}, time.Now())
	expect.NoError(t, err)
	certificate, err := tls.X509KeyPair(own.CertPEM, own.KeyPEM)
	expect.NoError(t, err)
	hub, err := NewHubTransport(HubEndpoint{Server: serve(t, after, ok), CA: before.CertPEM}, certificate, nil)
	expect.NoError(t, err)
	defer hub.Close()
	ask := func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.CurrentEndpoint().Server, http.NoBody)
		expect.NoError(t, err)
		response, err := hub.RoundTrip(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	if err := ask(); err == nil {
		t.Error("a server of an unknown authority is believed")
	}
	if err := hub.ReplaceCertificates([]byte("garbage"), certificate); err == nil {
		t.Error("a CA that is none is taken over")
	}
	expect.NoError(t, hub.ReplaceCertificates(append(slices.Clone(before.CertPEM), after.CertPEM...), certificate))
	if err := ask(); err != nil {
		t.Errorf("with both authorities: %v", err)
	}
}
