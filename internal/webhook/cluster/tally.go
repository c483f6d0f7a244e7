// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// forgetAfter is how long an object counts that was let through and that the informer
// has not shown: what refused it after the webhooks, or was its end, is not told.
const forgetAfter = time.Minute

// byKey is the index of what is counted, by its keys.
const byKey = "key"

// keep returns what a tally keeps of an object: its name, and the keys that it counts for,
// as labels.
func keep(of metav1.ObjectMeta, keys ...string) *metav1.PartialObjectMetadata {
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

// bound is how many objects may wait that count for a key.
type bound struct {
	key   string
	limit int
}

// tally knows how many objects wait: those that an informer shows, and those that it let
// through itself and the informer has not shown yet. So no creation has to ask the API
// server. Other replicas do not know of what this one has let through: together they
// exceed a limit by at most what is in flight.
type tally struct {
	// what says what is counted, after "how many".
	what   string
	clock  clock.PassiveClock
	synced cache.InformerSynced
	// shown are all objects of the hub, each as keep returns it.
	shown cache.Indexer

	mu sync.Mutex
	// admitted is when each object was let through, by key and name.
	admitted map[string]map[string]time.Time
}

// watchCounted begins to watch objects, until ctx ends. The transformation is to leave of
// each what keep returns.
func watchCounted(ctx context.Context, source cache.ListerWatcher, object runtime.Object, transform cache.TransformFunc) (cache.Indexer, cache.InformerSynced) {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: object, Handler: cache.ResourceEventHandlerFuncs{}, Indexers: indexByKey(), Transform: transform,
	})
	go informer.RunWithContext(ctx)
	return store.(cache.Indexer), informer.HasSynced // an Indexer, as it has Indexers
}

func newTally(what string, clock clock.PassiveClock, shown cache.Indexer, synced cache.InformerSynced) *tally {
	return &tally{what: what, clock: clock, shown: shown, synced: synced, admitted: map[string]map[string]time.Time{}}
}

// admit returns nil if an object may be made that counts for the keys of the bounds, and
// counts it from now on unless it is only tried. Otherwise it returns the first bound that
// there are enough of. An object whose name is taken makes no more of them. It fails while
// nothing is known yet.
func (t *tally) admit(ctx context.Context, name string, try bool, bounds []bound) (exceeded *bound, err error) {
	if !cache.WaitForCacheSync(ctx.Done(), t.synced) {
		return nil, fmt.Errorf("it is not known yet how many %s: try again, and if it stays like this look at the log of the registration webhook", t.what)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken, err := t.shown.GetByKey(name); taken || err != nil {
		return nil, err
	}
	for _, b := range bounds {
		t.forget(b.key)
		if _, taken := t.admitted[b.key][name]; taken {
			continue
		}
		shown, err := t.shown.IndexKeys(byKey, b.key)
		if err != nil {
			return nil, fmt.Errorf("counting how many %s: %w", t.what, err)
		}
		if len(shown)+len(t.admitted[b.key]) >= b.limit {
			return &b, nil
		}
	}
	if try {
		return nil, nil
	}
	for _, b := range bounds {
		if t.admitted[b.key] == nil {
			t.admitted[b.key] = map[string]time.Time{}
		}
		if _, counted := t.admitted[b.key][name]; !counted {
			t.admitted[b.key][name] = t.clock.Now()
		}
	}
	return nil, nil
}

// forget drops what the informer shows by now, or never will.
func (t *tally) forget(key string) {
	maps.DeleteFunc(t.admitted[key], func(name string, at time.Time) bool {
		_, shown, _ := t.shown.GetByKey(name)
		return shown || t.clock.Since(at) > forgetAfter
	})
	if len(t.admitted[key]) == 0 {
		delete(t.admitted, key)
	}
}
