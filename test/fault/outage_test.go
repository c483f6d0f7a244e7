// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestAgentIsKilledAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	random := newDice(t, 0)
	w.during(func() {
		for range theExtent().kills {
			w.kill()
			w.pause(time.Duration(random.intN(200)) * time.Millisecond)
			w.start()
			w.pause(time.Duration(200+random.intN(1000)) * time.Millisecond)
		}
	})
	w.settles()
	w.clear()
}

func TestAPIServersGoAway(t *testing.T) {
	w := newWorld(t)
	for name, cut := range map[string]func(){
		"the member's": func() {
			w.must(theFleet.Stop(t.Context(), w.member))
			w.pause(theExtent().outage)
			w.must(theFleet.Restart(t.Context(), w.member))
		},
		"the hub's": func() {
			w.must(theFleet.Stop(t.Context(), w.hub))
			w.pause(theExtent().outage)
			w.must(theFleet.Restart(t.Context(), w.hub))
		},
		"both, and the agent": func() {
			w.must(theFleet.Stop(t.Context(), w.hub))
			w.must(theFleet.Stop(t.Context(), w.member))
			w.kill()
			w.must(theFleet.Restart(t.Context(), w.member))
			w.start()
			w.must(theFleet.Restart(t.Context(), w.hub))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			w.during(cut)
			w.settles()
		})
	}
	w.clear()
}

func TestNetworkIsCut(t *testing.T) {
	w := newWorld(t)
	for name, proxies := range map[string][]*proxy{
		"to the hub": {w.toHub}, "to the member": {w.toMember}, "to both": {w.toHub, w.toMember},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			w.during(func() {
				for _, p := range proxies {
					p.cut()
				}
				w.pause(theExtent().outage)
				for _, p := range proxies {
					p.mend()
				}
			})
			w.settles()
		})
	}
	w.clear()
}

func TestHubIsRestoredFromAnOlderSnapshot(t *testing.T) {
	// Works that the hub has forgotten end after the grace period.
	w := newWorld(t, "--appliedmanifestwork-eviction-grace-period=3s")
	// One work is on its way out in the snapshot. The agent lets go of it later, and
	// has to do so again when the hub has it again.
	leaving := w.work("leaving", w.object("ConfigMap", "leaving", "value"))
	w.must(w.put(t.Context(), leaving.DeepCopy()))
	w.settles()
	w.kill()
	w.must(w.hub.Client.Delete(t.Context(), leaving.DeepCopy()))
	w.during(func() { w.must(theFleet.SaveHub(t.Context())) })
	w.start()
	w.settles()
	w.must(w.put(t.Context(), leaving))
	w.must(w.put(t.Context(), w.work("late", w.object("ConfigMap", "late", "value"))))
	w.during(func() { w.pause(3 * time.Second) })
	w.settles() // the hub knows what the snapshot does not
	w.toHub.cut()
	w.must(theFleet.RestoreHub(t.Context()))
	w.restored(`"0-1000000000"`) // all versions: nothing new is created until that is taken back
	w.toHub.mend()
	w.staysWithoutWork("late")
	w.restored("null")
	w.settles()
	w.during(func() {})
	w.settles()
	w.clear()
}

// restored sets the annotation by which a restored hub says what it forgot to a
// JSON value.
func (w *world) restored(value string) {
	w.t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.agent.Cluster()}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, fleetv1alpha1.AnnotationRestored, value)
	w.must(w.hub.Client.Patch(w.t.Context(), mc, client.RawPatch(types.MergePatchType, patch)))
}

// staysWithoutWork expects that the agent reports that works are missing, and does not
// begin to evict the ConfigMap of the same name as one of them, each time that it looks.
func (w *world) staysWithoutWork(name string) {
	w.t.Helper()
	w.eventually("the agent reports what the hub forgot", func(ctx context.Context) error {
		mc := &clusterv1.ManagedCluster{}
		if err := w.hub.Client.Get(ctx, client.ObjectKey{Name: w.agent.Cluster()}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionWorksMissing) {
			return fmt.Errorf("the conditions are %+v", mc.Status.Conditions)
		}
		return nil
	})
	for range 2 { // at the second look, the first one has ended
		w.looksWhatToKeep(name)
	}
	w.must(w.member.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.ns, Name: name}, &corev1.ConfigMap{}))
	records, err := w.records(w.t.Context())
	w.must(err)
	record, there := records[w.recordName(name)]
	if !there || record.DeletionTimestamp != nil || record.Status.EvictionStartTime != nil {
		w.t.Errorf("the record of work %q should stay: it is there: %t, deleted: %v, evicted since %v",
			name, there, record.DeletionTimestamp, record.Status.EvictionStartTime)
	}
	err = w.hub.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.agent.Cluster(), Name: name}, &workv1.ManifestWork{})
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("the restored hub should have forgotten work %q: %v", name, err)
	}
}

// looksWhatToKeep changes the ConfigMap of a work that the hub does not have, and waits
// until the agent asks the hub for what it forgot, as it does before it lets go of
// anything.
func (w *world) looksWhatToKeep(name string) {
	w.t.Helper()
	var asked atomic.Bool
	w.toHub.misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/managedclusters/"+w.agent.Cluster()) && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			asked.Store(true)
		}
		return false
	})
	defer w.toHub.misbehave(nil)
	patch := fmt.Appendf(nil, `{"data":{"mark":"%d"}}`, time.Now().UnixNano())
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	w.must(w.member.Client.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
	w.eventually("the agent asks the hub what it forgot", func(context.Context) error {
		if !asked.Load() {
			return errors.New("it does not")
		}
		return nil
	})
}

func TestAnswersAreErrors(t *testing.T) {
	w := newWorld(t)
	var given atomic.Int64
	random := newDice(t, 0)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"writes fail as if the disk were full": func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || random.oneIn(3) {
				return false
			}
			status(rw, http.StatusInsufficientStorage, "", "etcdserver: mvcc: database space exceeded")
			return true
		},
		"half of all requests fail": func(rw http.ResponseWriter, _ *http.Request) bool {
			switch random.intN(6) {
			case 0:
				status(rw, http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")
			case 1:
				status(rw, http.StatusTooManyRequests, "TooManyRequests", "too many requests, please try again later")
			case 2:
				status(rw, http.StatusServiceUnavailable, "ServiceUnavailable", "apiserver is shutting down")
			default:
				return false
			}
			return true
		},
		"writes are done but their answers lost": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet && random.oneIn(3) {
				r.Header.Set(loseAnswer, "true")
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			counting := func(rw http.ResponseWriter, r *http.Request) bool {
				given.Add(1)
				return answer(rw, r)
			}
			w.during(func() {
				w.toHub.misbehave(counting)
				w.toMember.misbehave(counting)
				w.pause(theExtent().outage)
				w.toHub.misbehave(nil)
				w.toMember.misbehave(nil)
			})
			w.settles()
			t.Logf("%d requests met this", given.Swap(0))
		})
	}
	w.clear()
}

func TestWatchesBreak(t *testing.T) {
	w := newWorld(t)
	random := newDice(t, 0)
	gone := func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || random.oneIn(2) {
			return false
		}
		status(rw, http.StatusGone, "Expired", "too old resource version")
		return true
	}
	w.during(func() {
		for i := range theExtent().rounds {
			if i%4 == 0 {
				w.toHub.misbehave(gone)
				w.toMember.misbehave(gone)
			}
			w.toHub.dropWatches()
			w.toMember.dropWatches()
			w.pause(500 * time.Millisecond)
			w.toHub.misbehave(nil)
			w.toMember.misbehave(nil)
		}
	})
	w.settles()
	w.clear()
}
