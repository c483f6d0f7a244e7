// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubtrust

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hub is an API server whose certificate and bundle change, and an agent's view
// of it.
type hub struct {
	t *testing.T

	mu       sync.Mutex
	serving  tls.Certificate
	bundle   []byte
	endpoint connect.HubEndpoint
}

func newHub(t *testing.T, signer *certs.CertificatePair) *hub {
	h := &hub{t: t}
	h.sign(signer)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		config := clientcmdapi.NewConfig()
		config.Clusters[""] = &clientcmdapi.Cluster{CertificateAuthorityData: h.bundle}
		kubeconfig, _ := clientcmd.Write(*config)
		_ = json.NewEncoder(w).Encode(corev1.ConfigMap{Data: map[string]string{"kubeconfig": string(kubeconfig)}})
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{h.serving}}, nil
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	h.bundle = signer.CertPEM
	h.endpoint = connect.HubEndpoint{Server: server.URL, CA: signer.CertPEM}
	return h
}

// sign gives the server a certificate of the signer.
func (h *hub) sign(signer *certs.CertificatePair) {
	h.t.Helper()
	leaf, err := certs.NewServing(signer, []string{"127.0.0.1"}, time.Now())
	expect.NoError(h.t, err)
	pair, err := tls.X509KeyPair(leaf.CertPEM, leaf.KeyPEM)
	expect.NoError(h.t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serving = pair
}

func (h *hub) publish(authorities ...*certs.CertificatePair) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bundle = nil
	for _, a := range authorities {
		h.bundle = append(h.bundle, a.CertPEM...)
	}
}

func (h *hub) present() connect.HubEndpoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endpoint
}

func (h *hub) trust(endpoint connect.HubEndpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoint = endpoint
}

// awaitTrust waits until the agent trusts these authorities and no others.
func (h *hub) awaitTrust(authorities ...*certs.CertificatePair) {
	h.t.Helper()
	var bundle []byte
	for _, a := range authorities {
		bundle = append(bundle, a.CertPEM...)
	}
	want := certs.PublicKeyPins(bundle)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if slices.Equal(certs.PublicKeyPins(h.present().CA), want) {
			return
		}
	}
	h.t.Fatalf("the agent trusts %v, want %v", certs.PublicKeyPins(h.present().CA), want)
}

// TestAnAgentFollowsARotation goes through the stages by which a hub replaces the
// authority of its API server.
func TestAnAgentFollowsARotation(t *testing.T) {
	before, err := certs.NewAuthority("old", time.Now())
	expect.NoError(t, err)
	after, err := certs.NewAuthority("new", time.Now())
	expect.NoError(t, err)
	h := newHub(t, before)
	part := &AuthorityPart{Endpoint: h.present, Trust: h.trust, Every: 2 * time.Millisecond, Log: logr.Discard()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	expect.NoError(t, part.Engage(ctx, &fleet.Connection{Name: "c1"}))
	h.publish(before, after)
	h.awaitTrust(before, after)
	h.sign(after)
	h.publish(after)
	h.awaitTrust(after)
}
