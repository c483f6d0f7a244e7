// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// drillRotation replaces all that can be replaced of a hub with three API servers
// and three members of etcd while clients use it: no request may fail, but for
// writes that are under way when the leader of etcd restarts.
func drillRotation(t *testing.T, d *harness.Drill) {
	d.MakeHub(t, "--replicas", "3")
	d.JoinMember(t)
	before := d.Identities(t)

	requests := harness.StartLoad(t, d.Hub)
	for _, r := range []struct{ flag, value, secret string }{
		{"--authority", "etcd", "etcd-ca"},
		{"--authority", "front-proxy", "front-proxy-ca"},
		{"--authority", "client", "client-ca"},
		{"--keys", "service-account", "service-account"},
		{"--keys", "encryption", "encryption"},
	} {
		secret := []string{"-n", harness.DrillPlace, "secret/" + harness.DrillHub + "-" + r.secret}
		data := d.Host.ReadPath(t, "{.data}", secret...)
		start, sent := time.Now(), requests.CountRequests()
		d.RunCapstan(t, d.OnHost("certs rotate", r.flag, r.value)...)
		if d.Host.ReadPath(t, "{.data}", secret...) == data {
			t.Errorf("the Secret %s is as before its rotation", secret[2])
		}
		now := requests.CountRequests().Since(sent)
		d.NoteLine("%-24s in %s: %s", r.flag+" "+r.value, time.Since(start).Round(time.Second), now)
		t.Log(d.Summary[len(d.Summary)-1])
		// Only this rotation restarts etcd, and thereby its leader.
		if now.Failed > 0 && (r.value != "etcd" || now.Failed > now.Lost) {
			t.Errorf("requests failed: %s", now)
		}
	}
	d.DeliversWork(t, "after the rotations")
	d.Summary = append(d.Summary, requests.StopLoad()...)
	if all := requests.CountRequests(); all.Failed > 0 {
		t.Logf("requests that failed:\n%s", strings.Join(requests.Errors, "\n"))
	}

	// The Secrets that were stored anew have their identity still.
	d.SameAs(t, before)
	d.MemberLeaves(t)
}
