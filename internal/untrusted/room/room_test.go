// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// came reports whether the turn of a request has come.
func came(mine *requestTurn) bool {
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
	r := NewRoom(size, share, now)
	type request struct {
		*requestTurn
		pod string
	}
	var requests []request
	for range perPod {
		for pod := range pods {
			name := fmt.Sprint("pod ", pod)
			requests = append(requests, request{r.joinLine(name, each), name})
		}
	}
	for round := range rounds {
		server := r.joinLine("API server", each)
		now.SetTime(now.Now().Add(3 * time.Second))
		for i, held := range requests {
			if came(held.requestTurn) {
				r.endTurn(held.requestTurn)
				requests[i].requestTurn = r.joinLine(held.pod, each)
			}
		}
		switch {
		case came(server):
			r.endTurn(server) // its request is here at once
		case round < pods: // all who are new have a turn
			r.withdrawTurn(server)
		default:
			t.Fatalf("round %d: the API server waits behind those who hold what they have", round)
		}
	}
}

// TestSendersAreForgotten has ever new addresses come while there is always somebody.
func TestSendersAreForgotten(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := NewRoom(10, 10, now)
	var last *requestTurn
	for i := range 3 * sendersMax {
		next := r.joinLine(fmt.Sprint(i), 1)
		now.SetTime(now.Now().Add(time.Second))
		if last != nil {
			r.endTurn(last)
		}
		last = next
	}
	if len(r.senders) > sendersMax+1 {
		t.Errorf("%d senders are remembered, want %d", len(r.senders), sendersMax)
	}
	r.endTurn(last)
	if len(r.senders) > 0 || r.free != 10 || r.begun != 0 {
		t.Errorf("with nobody here, %d senders are remembered, %d bytes are free, and one begins at %f", len(r.senders), r.free, r.begun)
	}
}

// TestALargeRequestIsNotPassedForEver has small ones come all the time.
func TestALargeRequestIsNotPassedForEver(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := NewRoom(10, 10, now)
	small := []*requestTurn{r.joinLine("one", 4), r.joinLine("two", 4)}
	large := r.joinLine("three", 9)
	small = append(small, r.joinLine("three", 2))
	for _, next := range small[:2] {
		r.endTurn(next)
	}
	if !came(large) || came(small[2]) {
		t.Error("a small request has the room that a large one waited for")
	}
}
