// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/fault/harness"
)

func TestAgentIsKilledAgainAndAgain(t *testing.T) {
	w := worlds.NewWorld(t)
	random := worlds.NewDice(t, 0)
	w.During(func() {
		for range theExtent().kills {
			w.Kill()
			w.Pause(time.Duration(random.IntN(200)) * time.Millisecond)
			w.Start()
			w.Pause(time.Duration(200+random.IntN(1000)) * time.Millisecond)
		}
	})
	w.Settles()
	w.Clear()
}

func TestAPIServersGoAway(t *testing.T) {
	w := worlds.NewWorld(t)
	for name, cut := range map[string]func(){
		"the member's": func() {
			w.Must(worlds.Fleet.Stop(t.Context(), w.Member))
			w.Pause(theExtent().outage)
			w.Must(worlds.Fleet.Restart(t.Context(), w.Member))
		},
		"the hub's": func() {
			w.Must(worlds.Fleet.Stop(t.Context(), w.Hub))
			w.Pause(theExtent().outage)
			w.Must(worlds.Fleet.Restart(t.Context(), w.Hub))
		},
		"both, and the agent": func() {
			w.Must(worlds.Fleet.Stop(t.Context(), w.Hub))
			w.Must(worlds.Fleet.Stop(t.Context(), w.Member))
			w.Kill()
			w.Must(worlds.Fleet.Restart(t.Context(), w.Member))
			w.Start()
			w.Must(worlds.Fleet.Restart(t.Context(), w.Hub))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			w.During(cut)
			w.Settles()
		})
	}
	w.Clear()
}

func TestNetworkIsCut(t *testing.T) {
	w := worlds.NewWorld(t)
	for name, proxies := range map[string][]*harness.Proxy{
		"to the hub": {w.ToHub}, "to the member": {w.ToMember}, "to both": {w.ToHub, w.ToMember},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			w.During(func() {
				for _, p := range proxies {
					p.Cut()
				}
				w.Pause(theExtent().outage)
				for _, p := range proxies {
					p.Mend()
				}
			})
			w.Settles()
		})
	}
	w.Clear()
}

func TestHubIsRestoredFromAnOlderSnapshot(t *testing.T) {
	// Works that the hub has forgotten end after the grace period.
	w := worlds.NewWorld(t, "--appliedmanifestwork-eviction-grace-period=3s")
	// One work is on its way out in the snapshot. The agent lets go of it later, and
	// has to do so again when the hub has it again.
	leaving := w.Work("leaving", w.Object("ConfigMap", "leaving", "value"))
	w.Must(w.Put(t.Context(), leaving.DeepCopy()))
	w.Settles()
	w.Kill()
	w.Must(w.Hub.Client.Delete(t.Context(), leaving.DeepCopy()))
	w.During(func() { w.Must(worlds.Fleet.SaveHub(t.Context())) })
	w.Start()
	w.Settles()
	w.Must(w.Put(t.Context(), leaving))
	w.Must(w.Put(t.Context(), w.Work("late", w.Object("ConfigMap", "late", "value"))))
	w.During(func() { w.Pause(3 * time.Second) })
	w.Settles() // the hub knows what the snapshot does not
	w.ToHub.Cut()
	w.Must(worlds.Fleet.RestoreHub(t.Context()))
	w.Restored(`"0-1000000000"`) // all versions: nothing new is created until that is taken back
	w.ToHub.Mend()
	w.StaysWithoutWork("late")
	w.Restored("null")
	w.Settles()
	w.During(func() {})
	w.Settles()
	w.Clear()
}

func TestAnswersAreErrors(t *testing.T) {
	w := worlds.NewWorld(t)
	var given atomic.Int64
	random := worlds.NewDice(t, 0)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"writes fail as if the disk were full": func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || random.OneIn(3) {
				return false
			}
			harness.Status(rw, http.StatusInsufficientStorage, "", "etcdserver: mvcc: database space exceeded")
			return true
		},
		"half of all requests fail": func(rw http.ResponseWriter, _ *http.Request) bool {
			switch random.IntN(6) {
			case 0:
				harness.Status(rw, http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")
			case 1:
				harness.Status(rw, http.StatusTooManyRequests, "TooManyRequests", "too many requests, please try again later")
			case 2:
				harness.Status(rw, http.StatusServiceUnavailable, "ServiceUnavailable", "apiserver is shutting down")
			default:
				return false
			}
			return true
		},
		"writes are done but their answers lost": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet && random.OneIn(3) {
				r.Header.Set(harness.LoseAnswer, "true")
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			counting := func(rw http.ResponseWriter, r *http.Request) bool {
				given.Add(1)
				return answer(rw, r)
			}
			w.During(func() {
				w.ToHub.Misbehave(counting)
				w.ToMember.Misbehave(counting)
				w.Pause(theExtent().outage)
				w.ToHub.Misbehave(nil)
				w.ToMember.Misbehave(nil)
			})
			w.Settles()
			t.Logf("%d requests met this", given.Swap(0))
		})
	}
	w.Clear()
}

func TestWatchesBreak(t *testing.T) {
	w := worlds.NewWorld(t)
	random := worlds.NewDice(t, 0)
	gone := func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || random.OneIn(2) {
			return false
		}
		harness.Status(rw, http.StatusGone, "Expired", "too old resource version")
		return true
	}
	w.During(func() {
		for i := range theExtent().rounds {
			if i%4 == 0 {
				w.ToHub.Misbehave(gone)
				w.ToMember.Misbehave(gone)
			}
			w.ToHub.DropWatches()
			w.ToMember.DropWatches()
			w.Pause(500 * time.Millisecond)
			w.ToHub.Misbehave(nil)
			w.ToMember.Misbehave(nil)
		}
	})
	w.Settles()
	w.Clear()
}
