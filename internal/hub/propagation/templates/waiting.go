// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

const (
	// unservedMin and unservedMax bound the time between two looks whether the hub
	// serves a kind that it did not serve.
	unservedMin = 500 * time.Millisecond
	unservedMax = 10 * time.Second
)

// waitingKinds are the kinds that are used and not watched yet. They have no goroutine each:
// there may be ever so many that the hub never serves. The mutex of the Templates
// guards them.
type waitingKinds struct {
	kinds sets.Set[*watchedKind]
	// fresh are those of them that nobody has looked for yet, and added has a value if
	// there are any.
	fresh sets.Set[*watchedKind]
	added chan struct{}
}

func newWaitingKinds() *waitingKinds {
	return &waitingKinds{kinds: sets.New[*watchedKind](), fresh: sets.New[*watchedKind](), added: make(chan struct{}, 1)}
}

func (w *waitingKinds) addKind(k *watchedKind) {
	w.kinds.Insert(k)
	w.fresh.Insert(k)
	select {
	case w.added <- struct{}{}:
	default: // somebody is to look already
	}
}

func (w *waitingKinds) removeKind(k *watchedKind) {
	w.kinds.Delete(k)
	w.fresh.Delete(k)
}

// Start watches the kinds that are used until ctx ends, each as soon as the hub serves
// it. It is a Runnable of a manager.
func (t *Templates) Start(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	pause := backoff.ExponentialBetween(unservedMin, unservedMax)
	due := t.options.Clock.Now().Add(pause.Step())
	for {
		timer := t.options.Clock.NewTimer(due.Sub(t.options.Clock.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-t.waiting.added:
			timer.Stop()
			if t.watchServed(ctx, &watches, t.takeFresh()) {
				continue
			}
			// Their definition may be about to come. What waits already is not put off.
			pause = backoff.ExponentialBetween(unservedMin, unservedMax)
			if soon := t.options.Clock.Now().Add(pause.Step()); soon.Before(due) {
				due = soon
			}
		case <-timer.C():
			t.watchServed(ctx, &watches, t.listUnwatched())
			due = t.options.Clock.Now().Add(pause.Step())
		}
	}
}

// takeFresh returns the kinds that nobody has looked for yet, once.
func (t *Templates) takeFresh() []*watchedKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := t.waiting.fresh.UnsortedList()
	t.waiting.fresh = sets.New[*watchedKind]()
	return fresh
}

// listUnwatched returns all kinds that are used and not watched yet.
func (t *Templates) listUnwatched() []*watchedKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting.kinds.UnsortedList()
}

// watchServed begins to watch those of the kinds that the hub serves, and reports whether
// these are all.
func (t *Templates) watchServed(ctx context.Context, watches *sync.WaitGroup, kinds []*watchedKind) (all bool) {
	all = true
	for _, k := range kinds {
		if ctx.Err() != nil {
			return all
		}
		mapping, err := t.options.Mapper.RESTMapping(k.of.GroupKind(), k.of.Version)
		if err != nil {
			k.Failed(err)
			all = false
			continue
		}
		t.watchKind(ctx, watches, k, mapping)
	}
	return all
}

// watchKind begins to watch a kind, unless nobody uses it any more.
func (t *Templates) watchKind(ctx context.Context, watches *sync.WaitGroup, k *watchedKind, mapping *meta.RESTMapping) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.stopped {
		return
	}
	t.waiting.removeKind(k)
	watching, cancel := context.WithCancel(ctx)
	k.cancel = cancel
	w := watch.Watch[*metav1.PartialObjectMetadata]{
		Source: watch.MetadataSource(t.options.Client, mapping.Resource, watch.ObjectSelector{}), Handler: k, Clock: t.options.Clock,
	}
	watches.Go(func() { w.RunReflector(watching) })
}
