// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestExpiriesAreThoseOfTheFirstCertificateToExpire(t *testing.T) {
	expiries := NewExpiries()
	registry := prometheus.NewPedanticRegistry()
	expect.NoError(t, RegisterCollectors(registry, expiries))
	expect := func(want map[string]float64) {
		t.Helper()
		families, err := registry.Gather()
		expect.NoError(t, err)
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				got[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("expiries (-want +got):\n%s", diff)
		}
	}
	expect(map[string]float64{})
	expiries.ReplaceOwner("one", map[string]time.Time{"hub-ca": time.Unix(300, 0), "webhook-serving": time.Unix(200, 0)})
	expiries.ReplaceOwner("two", map[string]time.Time{"hub-ca": time.Unix(100, 0)})
	expect(map[string]float64{"hub-ca": 100, "webhook-serving": 200})
	expiries.ReplaceOwner("two", nil)
	expect(map[string]float64{"hub-ca": 300, "webhook-serving": 200})
}
