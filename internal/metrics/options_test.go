// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"crypto/tls"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestPortZeroTurnsTheServerOff(t *testing.T) {
	if got := Options(0, nil).BindAddress; got != "0" {
		t.Errorf("got bind address %q, want \"0\", which controller-runtime takes for off", got)
	}
}

func TestMetricsAreServedOverTLSAndGuarded(t *testing.T) {
	options := Options(8080, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 })
	if options.BindAddress != ":8080" || !options.SecureServing || options.FilterProvider == nil {
		t.Errorf("got address %q, secure %t, filter %t, want :8080, secure and a filter",
			options.BindAddress, options.SecureServing, options.FilterProvider != nil)
	}
	var config tls.Config
	for _, set := range options.TLSOpts {
		set(&config)
	}
	if config.MinVersion != tls.VersionTLS13 || config.GetCertificate == nil {
		t.Errorf("got TLS version %x and certificate %t, want 1.3 and a certificate", config.MinVersion, config.GetCertificate != nil)
	}
}

func TestBuildInfoIsRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := RegisterBuildInfo(registry, "work-webhook"); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families[0].GetName() != "capstan_build_info" || families[0].GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Errorf("got %v, want capstan_build_info 1", families)
	}
}
