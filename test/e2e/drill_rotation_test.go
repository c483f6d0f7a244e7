// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// drillRotation replaces all that can be replaced of a hub with three API servers
// and three members of etcd while clients use it: no request may fail, but for
// writes that are under way when the leader of etcd restarts.
func drillRotation(t *testing.T, d *drill) {
	d.makeHub(t, "--replicas", "3")
	d.join(t)
	before := d.identities(t)

	requests := startLoad(t, d.hub)
	for _, r := range []struct{ flag, value, secret string }{
		{"--authority", "etcd", "etcd-ca"},
		{"--authority", "front-proxy", "front-proxy-ca"},
		{"--authority", "client", "client-ca"},
		{"--keys", "service-account", "service-account"},
		{"--keys", "encryption", "encryption"},
	} {
		secret := []string{"-n", drillPlace, "secret/" + drillHub + "-" + r.secret}
		data := d.host.jsonpath(t, "{.data}", secret...)
		start, sent := time.Now(), requests.counts()
		d.capstan(t, d.onHost("certs rotate", r.flag, r.value)...)
		if d.host.jsonpath(t, "{.data}", secret...) == data {
			t.Errorf("the Secret %s is as before its rotation", secret[2])
		}
		now := requests.counts().since(sent)
		d.say("%-24s in %s: %s", r.flag+" "+r.value, time.Since(start).Round(time.Second), now)
		t.Log(d.summary[len(d.summary)-1])
		// Only this rotation restarts etcd, and thereby its leader.
		if now.failed > 0 && (r.value != "etcd" || now.failed > now.lost) {
			t.Errorf("requests failed: %s", now)
		}
	}
	d.delivers(t, "after the rotations")
	d.summary = append(d.summary, requests.stop()...)
	if all := requests.counts(); all.failed > 0 {
		t.Logf("requests that failed:\n%s", strings.Join(requests.errors, "\n"))
	}

	// The Secrets that were stored anew have their identity still.
	d.sameAs(t, before)
	d.leave(t)
}
