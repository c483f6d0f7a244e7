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
)

const (
	day = 24 * time.Hour
	// enough is how many requests have to get through after each step.
	enough = 40
	// patience only decides how long a failure takes.
	patience = time.Minute
)

// TestCertificatesAndTheirSignerChangeWithoutAFailedRequest goes through the
// life of a signer with the lifetimes that hubs have. The API server has the
// real clock, so the clock of the hub is behind: by so much that every
// certificate that is used at the time of the test is valid then.
func TestCertificatesAndTheirSignerChangeWithoutAFailedRequest(t *testing.T) {
	h := newHub(t, time.Now().Add(-300*day))

	// The first signer is 271 days old when the server gets its certificate, so
	// that its successor is due before the certificate ends.
	h.rotate(t)
	first := h.signer(t)
	h.advance(271 * day)
	h.want()
	h.rotate(t)
	serving := h.servingCertificate(t)
	h.mount(t)
	h.serve(t)
	h.installWebhooks(t)

	load := h.startLoad(t)
	load.wait(t, "the hub works", func() bool { return load.done.Load() >= enough })

	// Day 293: the signer's successor is published, and signs nothing yet.
	h.advance(22 * day)
	h.rotate(t)
	second := h.signer(t)
	if bytes.Equal(first, second) || !bytes.Equal(serving, h.servingCertificate(t)) {
		t.Fatal("want a new signer, and the certificate of the server as it was")
	}
	h.installWebhooks(t)
	load.wait(t, "the API server trusts both signers", func() bool { return h.reached() == h.generation && load.more(enough) })
	h.rotate(t)

	// Day 295: the certificate of the server is due, and the new signer trusted.
	h.advance(2*day + time.Hour)
	h.rotate(t)
	renewed := h.servingCertificate(t)
	if bytes.Equal(serving, renewed) {
		t.Fatal("want a new certificate of the server")
	}
	if !signedBy(t, renewed, second) {
		t.Fatal("the new certificate is not signed by the new signer")
	}
	load.wait(t, "the file has the old certificate still", func() bool { return load.more(enough) })
	h.mount(t)
	load.wait(t, "the server has the new certificate", func() bool { return h.presents(t, renewed) && load.more(enough) })
	h.rotate(t)
	h.installWebhooks(t)
	load.wait(t, "the hub has settled", func() bool { return h.reached() == h.generation && load.more(enough) })

	if failed := load.failures(); len(failed) > 0 {
		t.Errorf("of %d requests %d failed, for example: %v", load.done.Load(), len(failed), failed[0])
	}
	t.Logf("%d requests while certificate and signer changed", load.done.Load())

	// The same with a signer that nobody was told of: this test would see it.
	h.presentStranger(t)
	load.wait(t, "requests fail with an unknown signer", func() bool { return len(load.failures()) > 0 })
}
