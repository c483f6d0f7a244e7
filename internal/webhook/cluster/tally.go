// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/webhook/sender"
)

const (
	// forgetAfter is how long an object counts that was let through and that the informer
	// has not shown: what refused it after the webhooks, or was its end, is not told.
	forgetAfter = time.Minute
	// admittedMax is how often the objects of one sender that were let through count
	// together, before the informer shows them.
	admittedMax = 4000
	// sendersMax is of how many senders such objects count. A hub has fewer API servers.
	sendersMax = 32
	// nameMax is how long a name is that an API server takes.
	nameMax = 253
)

// byKey is the index of what is counted, by its keys.
const byKey = "key"

// keepTallyKeys returns what a tally keeps of an object: its name, and the keys that it counts for,
// as labels.
func keepTallyKeys(of metav1.ObjectMeta, keys ...string) *metav1.PartialObjectMetadata {
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: of.Name, ResourceVersion: of.ResourceVersion}}
	for _, key := range keys {
		metav1.SetMetaDataLabel(&kept.ObjectMeta, key, "")
	}
	return kept
}

func indexByKey() cache.Indexers {
	return cache.Indexers{byKey: func(object any) ([]string, error) {
		return slices.Collect(maps.Keys(object.(metav1.Object).GetLabels())), nil
	}}
}

// tallyBound is how many objects may wait that count for a key.
type tallyBound struct {
	key   string
	limit int
}

// waitTally knows how many objects wait: those that an informer shows, and those that it let
// through itself and the informer has not shown yet. So no creation has to ask the API
// server. Other replicas do not know of what this one has let through: together they
// exceed a limit by at most what is in flight.
//
// Nothing tells an API server from a pod that forges its requests. What is let through
// therefore counts for the requests of the same sender only, until the informer shows it.
type waitTally struct {
	// what says what is counted, after "how many".
	what   string
	clock  clock.PassiveClock
	synced cache.InformerSynced
	// shown are all objects of the hub, each as keep returns it.
	shown cache.Indexer

	mu      sync.Mutex
	senders map[string]*senderAdmissions // by address
}

// senderAdmissions are the objects that were let through for one sender.
type senderAdmissions struct {
	// asked is when the sender asked last; the lock of the tally is for it.
	asked time.Time

	mu sync.Mutex
	// at is when each object was let through, by key and name.
	at map[keyDigest]map[string]time.Time
	// total is how many entries it has.
	total int
	// swept is when what will never be shown was dropped last.
	swept time.Time
}

// keyDigest stands for a key, which may be as long as the name of a user.
type keyDigest [sha256.Size]byte

func digestOf(key string) keyDigest { return sha256.Sum256([]byte(key)) }

// watchCounted begins to watch objects, until ctx ends. The transformation is to leave of
// each what keep returns.
func watchCounted(ctx context.Context, source cache.ListerWatcher, object runtime.Object, transform cache.TransformFunc) (cache.Indexer, cache.InformerSynced) {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: object, Handler: cache.ResourceEventHandlerFuncs{}, Indexers: indexByKey(), Transform: transform,
	})
	go informer.RunWithContext(ctx)
	return store.(cache.Indexer), informer.HasSynced // an Indexer, as it has Indexers
}

func newWaitTally(what string, clock clock.PassiveClock, shown cache.Indexer, synced cache.InformerSynced) *waitTally {
	return &waitTally{what: what, clock: clock, shown: shown, synced: synced, senders: map[string]*senderAdmissions{}}
}

// admitWithinBounds returns nil if an object may be made that counts for the keys of the bounds, and
// counts it from now on for its sender unless it is only tried. Otherwise it returns the
// first bound that there are enough of. An object whose name is taken makes no more of
// them. It fails while nothing is known yet, and for a sender of whom too much is in flight.
func (t *waitTally) admitWithinBounds(ctx context.Context, name string, try bool, bounds []tallyBound) (exceeded *tallyBound, err error) {
	if !cache.WaitForCacheSync(ctx.Done(), t.synced) {
		return nil, fmt.Errorf("it is not known yet how many %s: try again, and if it stays like this look at the log of the registration webhook", t.what)
	}
	if len(name) > nameMax {
		return nil, fmt.Errorf("a name of %d bytes is too long for an object, which can have %d at most", len(name), nameMax)
	}
	if _, taken, err := t.shown.GetByKey(name); taken || err != nil {
		return nil, err
	}
	a := t.admissionsOf(sender.AddressFromContext(ctx))
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.clock.Since(a.swept) > forgetAfter || a.total+len(bounds) > admittedMax {
		t.dropSettled(a)
	}
	for _, b := range bounds {
		t.dropSettledOfKey(a, digestOf(b.key))
		admitted := a.at[digestOf(b.key)]
		if _, counted := admitted[name]; counted {
			continue
		}
		shown, err := t.shown.IndexKeys(byKey, b.key)
		if err != nil {
			return nil, fmt.Errorf("counting how many %s: %w", t.what, err)
		}
		if len(shown)+len(admitted) >= b.limit {
			return &b, nil
		}
	}
	if try {
		return nil, nil
	}
	if a.total+len(bounds) > admittedMax {
		return nil, fmt.Errorf("more was let through in a minute than can be counted of how many %s: try again", t.what)
	}
	for _, b := range bounds {
		a.countAdmission(digestOf(b.key), name, t.clock.Now())
	}
	return nil, nil
}

// admissionsOf returns what counts for a sender. Where there are too many, the sender is
// forgotten that has not asked for longest.
func (t *waitTally) admissionsOf(address string) *senderAdmissions {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, known := t.senders[address]
	if !known {
		if len(t.senders) >= sendersMax {
			delete(t.senders, slices.MinFunc(slices.Collect(maps.Keys(t.senders)), func(a, b string) int {
				return t.senders[a].asked.Compare(t.senders[b].asked)
			}))
		}
		a = &senderAdmissions{at: map[keyDigest]map[string]time.Time{}, swept: t.clock.Now()}
		t.senders[address] = a
	}
	a.asked = t.clock.Now()
	return a
}

// countAdmission counts an object for a key from now on, unless it does already.
func (a *senderAdmissions) countAdmission(key keyDigest, name string, now time.Time) {
	if a.at[key] == nil {
		a.at[key] = map[string]time.Time{}
	}
	if _, counted := a.at[key][name]; !counted {
		a.at[key][name] = now
		a.total++
	}
}

// dropSettled drops what the informer shows by now, or never will.
func (t *waitTally) dropSettled(a *senderAdmissions) {
	for key := range a.at {
		t.dropSettledOfKey(a, key)
	}
	a.swept = t.clock.Now()
}

// dropSettledOfKey drops what the informer shows by now, or never will, of one key.
func (t *waitTally) dropSettledOfKey(a *senderAdmissions, key keyDigest) {
	before := len(a.at[key])
	maps.DeleteFunc(a.at[key], func(name string, at time.Time) bool {
		_, shown, _ := t.shown.GetByKey(name)
		return shown || t.clock.Since(at) > forgetAfter
	})
	a.total -= before - len(a.at[key])
	if len(a.at[key]) == 0 {
		delete(a.at, key)
	}
}
