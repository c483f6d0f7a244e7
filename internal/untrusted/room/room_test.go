// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// came tells whether the turn of a request has come.
func came(mine *turn) bool {
	select {
	case <-mine.came:
		return true
	default:
		return false
	}
}

// TestWhoHoldsRoomForLongWaitsForWhoDoesNot has pods hold all the room for as long as they
// may, again and again, with more requests in the line than there is room for in minutes.
func TestWhoHoldsRoomForLongWaitsForWhoDoesNot(t *testing.T) {
	const size, share, each, pods, perPod, rounds = 24, 16, 7, 12, 4, 40
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := New(size, share, now)
	type request struct {
		*turn
		pod string
	}
	var requests []request
	for range perPod {
		for pod := range pods {
			name := fmt.Sprint("pod ", pod)
			requests = append(requests, request{r.ask(name, each), name})
		}
	}
	for round := range rounds {
		server := r.ask("API server", each)
		now.SetTime(now.Now().Add(3 * time.Second))
		for i, held := range requests {
			if came(held.turn) {
				r.leave(held.turn)
				requests[i].turn = r.ask(held.pod, each)
			}
		}
		switch {
		case came(server):
			r.leave(server) // its request is here at once
		case round < pods: // all who are new have a turn
			r.withdraw(server)
		default:
			t.Fatalf("round %d: the API server waits behind those who hold what they have", round)
		}
	}
}

// TestSendersAreForgotten has ever new addresses come while there is always somebody.
func TestSendersAreForgotten(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := New(10, 10, now)
	var last *turn
	for i := range 3 * sendersMax {
		next := r.ask(fmt.Sprint(i), 1)
		now.SetTime(now.Now().Add(time.Second))
		if last != nil {
			r.leave(last)
		}
		last = next
	}
	if len(r.senders) > sendersMax+1 {
		t.Errorf("%d senders are remembered, want %d", len(r.senders), sendersMax)
	}
	r.leave(last)
	if len(r.senders) > 0 || r.free != 10 || r.begun != 0 {
		t.Errorf("with nobody here, %d senders are remembered, %d bytes are free, and one begins at %f", len(r.senders), r.free, r.begun)
	}
}

// TestALargeRequestIsNotPassedForEver has small ones come all the time.
func TestALargeRequestIsNotPassedForEver(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := New(10, 10, now)
	small := []*turn{r.ask("one", 4), r.ask("two", 4)}
	large := r.ask("three", 9)
	small = append(small, r.ask("three", 2))
	for _, next := range small[:2] {
		r.leave(next)
	}
	if !came(large) || came(small[2]) {
		t.Error("a small request has the room that a large one waited for")
	}
}
