// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

func TestWholeManifestsAreSentAgainAtGrowingIntervals(t *testing.T) {
	now, hash, other := time.Unix(1700000000, 0), apply.ManifestHash{1}, apply.ManifestHash{2}
	paths := []ignore.Path{{"spec", "x"}}
	var u *UndeclaredFields
	if wait := u.RetryDelay(hash, now); wait != 0 {
		t.Errorf("a manifest with no such fields waits for %s", wait)
	}
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		u = u.UpdateAfterSend(hash, paths, true, now)
		if wait := u.RetryDelay(hash, now); wait != want {
			t.Errorf("the next is after %s, want %s", wait, want)
		}
		// To send it without the fields in between changes nothing about that.
		u = u.UpdateAfterSend(hash, paths, false, now.Add(want/2))
		if wait := u.RetryDelay(hash, now.Add(want/2)); wait != want/2 {
			t.Errorf("after half the time it is after %s, want %s", wait, want/2)
		}
		now = now.Add(want)
		if wait := u.RetryDelay(hash, now); wait != 0 {
			t.Errorf("after %s there are still %s", want, wait)
		}
	}
	if wait := u.RetryDelay(other, now.Add(-time.Second)); wait != 0 {
		t.Errorf("another manifest waits for %s", wait)
	}
	if wait := u.UpdateAfterSend(other, paths, true, now).RetryDelay(other, now); wait != 30*time.Second {
		t.Errorf("another manifest begins with %s", wait)
	}
	if u.UpdateAfterSend(hash, nil, true, now) != nil {
		t.Error("fields are remembered that the member knows")
	}
}
