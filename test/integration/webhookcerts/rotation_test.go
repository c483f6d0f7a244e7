// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhookcerts has the test that certificates of webhooks, and the
// signer behind them, change without a request that fails. It takes parts of
// several layers together, as a hub does.
package webhookcerts

import (
	"bytes"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/integration/webhookcerts/harness"
)

// TestCertificatesAndTheirSignerChangeWithoutAFailedRequest goes through the
// life of a signer with the lifetimes that hubs have. The API server has the
// real clock, so the clock of the hub is behind: by so much that every
// certificate that is used at the time of the test is valid then.
func TestCertificatesAndTheirSignerChangeWithoutAFailedRequest(t *testing.T) {
	h := harness.NewHub(t, servers, time.Now().Add(-300*harness.Day))

	// The first signer is 271 days old when the server gets its certificate, so
	// that its successor is due before the certificate ends.
	h.RotateNow(t)
	first := h.SignerCertificate(t)
	h.AdvanceClock(271 * harness.Day)
	h.WantCertificate()
	h.RotateNow(t)
	serving := h.ServingCertificate(t)
	h.MountCertificate(t)
	h.ServeWebhooks(t)
	h.InstallWebhooks(t)

	load := h.StartLoad(t)
	load.AwaitRequests(t, "the hub works", func() bool { return load.Done.Load() >= harness.Enough })

	// Day 293: the signer's successor is published, and signs nothing yet.
	h.AdvanceClock(22 * harness.Day)
	h.RotateNow(t)
	second := h.SignerCertificate(t)
	if bytes.Equal(first, second) || !bytes.Equal(serving, h.ServingCertificate(t)) {
		t.Fatal("want a new signer, and the certificate of the server as it was")
	}
	h.InstallWebhooks(t)
	load.AwaitRequests(t, "the API server trusts both signers", func() bool { return h.CountReached() == h.Generation && load.HasMore(harness.Enough) })
	h.RotateNow(t)

	// Day 295: the certificate of the server is due, and the new signer trusted.
	h.AdvanceClock(2*harness.Day + time.Hour)
	h.RotateNow(t)
	renewed := h.ServingCertificate(t)
	if bytes.Equal(serving, renewed) {
		t.Fatal("want a new certificate of the server")
	}
	if !harness.SignedBy(t, renewed, second) {
		t.Fatal("the new certificate is not signed by the new signer")
	}
	load.AwaitRequests(t, "the file has the old certificate still", func() bool { return load.HasMore(harness.Enough) })
	h.MountCertificate(t)
	load.AwaitRequests(t, "the server has the new certificate", func() bool { return h.Presents(t, renewed) && load.HasMore(harness.Enough) })
	h.RotateNow(t)
	h.InstallWebhooks(t)
	load.AwaitRequests(t, "the hub has settled", func() bool { return h.CountReached() == h.Generation && load.HasMore(harness.Enough) })

	if failed := load.ListFailures(); len(failed) > 0 {
		t.Errorf("of %d requests %d failed, for example: %v", load.Done.Load(), len(failed), failed[0])
	}
	t.Logf("%d requests while certificate and signer changed", load.Done.Load())

	// The same with a signer that nobody was told of: this test would see it.
	h.PresentStranger(t)
	load.AwaitRequests(t, "requests fail with an unknown signer", func() bool { return len(load.ListFailures()) > 0 })
}
