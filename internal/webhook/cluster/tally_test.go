// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/webhook/sender"
)

// TestForgedReviewsCountForNobodyElse has pods that reach the port say that clusters, and
// certificate requests, of somebody else are made, of which none ever is.
func TestForgedReviewsCountForNobodyElse(t *testing.T) {
	const limit = 3
	w, _ := waitingOf(t, limit, nil)
	for pod := range 10 {
		ctx := sender.ContextWithSender(t.Context(), fmt.Sprintf("10.0.0.%d", pod))
		for i := range 2 * limit {
			may, err := w.admitWaiting(ctx, "anna", fmt.Sprintf("forged-%d-%d", pod, i), false)
			if want := i < limit; may != want || err != nil {
				t.Errorf("forged cluster %d of pod %d: admitted %t (%v), want %t", i, pod, may, err, want)
			}
		}
	}
	server := sender.ContextWithSender(t.Context(), "10.1.0.1")
	for i := range limit {
		if may, err := w.admitWaiting(server, "anna", fmt.Sprint("c-", i), false); !may || err != nil {
			t.Errorf("cluster %d, which an API server asks about: admitted %t (%v)", i, may, err)
		}
	}
	if may, err := w.admitWaiting(server, "anna", "more", false); may || err != nil {
		t.Errorf("what an API server asks about is not limited: %v", err)
	}
	// What is there counts, whatever address the API server asks from next.
	for i := range limit {
		w.shows(t, fmt.Sprint("c-", i), "anna")
	}
	if may, err := w.admitWaiting(sender.ContextWithSender(t.Context(), "10.1.0.2"), "anna", "more", false); may || err != nil {
		t.Errorf("clusters that are there do not count for another API server: %v", err)
	}
}

// TestForgedReviewsTakeLittleMemory forges reviews with ever new keys and names.
func TestForgedReviewsTakeLittleMemory(t *testing.T) {
	w, now := waitingOf(t, 3, nil)
	long := strings.Repeat("x", 1<<20)
	ctx := sender.ContextWithSender(t.Context(), "10.0.0.1")
	if _, err := w.admitWaiting(ctx, "anna", long, false); err == nil {
		t.Error("a name of a megabyte is counted")
	}
	refused := 0
	for i := range admittedMax + 100 {
		if _, err := w.admitWaiting(ctx, fmt.Sprint(i, long[:1000]), fmt.Sprint("c-", i), false); err != nil {
			refused++
		}
	}
	if a := w.senders["10.0.0.1"]; refused != 100 || a.total != admittedMax || len(a.at) != admittedMax {
		t.Errorf("%d are refused, and %d count for %d keys, want %d", refused, a.total, len(a.at), admittedMax)
	}
	if may, err := w.admitWaiting(sender.ContextWithSender(t.Context(), "10.1.0.1"), "anna", "one", false); !may || err != nil {
		t.Errorf("another sender has no room: %v", err)
	}
	now.SetTime(now.Now().Add(forgetAfter + time.Second))
	if may, err := w.admitWaiting(ctx, "anna", "two", false); !may || err != nil {
		t.Errorf("a minute later there is no room: %v", err)
	}
	if a := w.senders["10.0.0.1"]; a.total != 1 || len(a.at) != 1 {
		t.Errorf("%d still count for %d keys, want only the new one", a.total, len(a.at))
	}
}

// TestFewSendersAreRemembered forges reviews from ever new addresses.
func TestFewSendersAreRemembered(t *testing.T) {
	w, now := waitingOf(t, 3, nil)
	for i := range 3 * sendersMax {
		now.SetTime(now.Now().Add(time.Millisecond))
		if _, err := w.admitWaiting(sender.ContextWithSender(t.Context(), fmt.Sprint("10.2.0.", i)), "anna", "three", false); err != nil {
			t.Error(err)
		}
	}
	if len(w.senders) != sendersMax {
		t.Errorf("%d senders are remembered, want %d at most", len(w.senders), sendersMax)
	}
}
