// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestSelfSignedCertificateIsReplacedBeforeItExpires(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	certificate := NewSelfSigned("server", clock)
	serial := func() string {
		t.Helper()
		got, err := certificate.GetCertificate(nil)
		expect.NoError(t, err)
		if now := clock.Now(); now.Before(got.Leaf.NotBefore) || now.After(got.Leaf.NotAfter) {
			t.Errorf("at %s the certificate is valid from %s to %s", now, got.Leaf.NotBefore, got.Leaf.NotAfter)
		}
		return got.Leaf.SerialNumber.String()
	}
	first := serial()
	if second := serial(); second != first {
		t.Error("made a second certificate although the first is new")
	}
	clock.SetTime(clock.Now().Add(LeafLifetime/2 + time.Second))
	if second := serial(); second == first {
		t.Error("still uses the first certificate after half of its life")
	}
}
