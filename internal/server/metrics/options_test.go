// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/ports"
)

func TestPortZeroTurnsTheServerOff(t *testing.T) {
	if server, err := NewMetricsServer(0, nil, &rest.Config{}); server != nil || err != nil {
		t.Errorf("got %v, %v, want no server", server, err)
	}
}

func TestMetricsAreServedOverTLSAndGuarded(t *testing.T) {
	port := ports.FreePort(t)
	server, err := NewMetricsServer(port, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, &rest.Config{Host: "http://127.0.0.1:1"})
	expect.NoError(t, err)
	go func() {
		if err := server.Start(t.Context()); err != nil {
			t.Errorf("serving metrics: %v", err)
		}
	}()
	if got := get(t, port, ""); got != http.StatusUnauthorized {
		t.Errorf("without a token, got status %d, want %d", got, http.StatusUnauthorized)
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}}
	if connection, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
		_ = connection.Close()
		t.Error("TLS 1.2 is spoken, want 1.3 only")
	}
}

func TestBuildInfoIsRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		expect.NoError(t, RegisterBuildInfo(registry, "work-webhook"))
	}
	families, err := registry.Gather()
	expect.NoError(t, err)
	if len(families) != 1 || families[0].GetName() != "capstan_build_info" || families[0].GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Errorf("got %v, want capstan_build_info 1", families)
	}
}
