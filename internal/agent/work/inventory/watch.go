// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
)

const (
	// relistBackoffMax is the longest time between two attempts to watch a type
	// while the server cannot be reached or is busy.
	relistBackoffMax = 15 * time.Second
	// probeAgainMin and probeAgainMax bound the time between two attempts to list
	// a type that the server does not have or does not let us see; it doubles.
	probeAgainMin = 200 * time.Millisecond
	probeAgainMax = 30 * time.Second
)

// ErrPending says that a type has not been listed yet.
var ErrPending = errors.New("the objects of the type are not listed yet")

// state is how much is known of a type.
type state uint8

const (
	statePending state = iota
	stateSynced
	// stateBlind: the server does not let us list or watch.
	stateBlind
)

// typeWatch is the watch of one type and what it found. The mutex of the
// inventory guards it.
type typeWatch struct {
	resource schema.GroupVersionResource
	users    int // how many use it
	cancel   context.CancelFunc

	stopped bool // what the watch still says is not wanted
	state   state
	err     error
	seen    string // the resourceVersion up to which the records are complete
	records map[name]*Record
}

func (w *typeWatch) problem() error {
	switch w.state {
	case stateSynced:
		return nil
	case stateBlind:
		return w.err
	default:
		if w.err != nil {
			return fmt.Errorf("%w: %w", ErrPending, w.err)
		}
		return ErrPending
	}
}

func (i *Inventory) start(ctx context.Context, resource schema.GroupVersionResource) *typeWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &typeWatch{
		resource: resource, cancel: cancel, records: map[name]*Record{},
	}
	i.options.Go(func() {
		for alsoWatch := false; i.probe(ctx, w, alsoWatch); {
			alsoWatch = i.reflect(ctx, w)
		}
	})
	return w
}

// probe returns true as soon as the type can be listed, and false when ctx
// ended. A reflector that starts before would complain in the log for ever. A
// type that could be listed but not watched is tried for both.
func (i *Inventory) probe(ctx context.Context, w *typeWatch, alsoWatch bool) bool {
	options := metav1.ListOptions{LabelSelector: managed(), Limit: 1}
	for wait := probeAgainMin; ; wait = min(2*wait, probeAgainMax) {
		_, err := i.options.Client.Resource(w.resource).List(ctx, options)
		if err == nil && alsoWatch {
			err = i.tryWatch(ctx, w)
		}
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		i.failed(w, err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

func (i *Inventory) tryWatch(ctx context.Context, w *typeWatch) error {
	events, err := i.options.Client.Resource(w.resource).Watch(ctx, metav1.ListOptions{LabelSelector: managed()})
	if err != nil {
		return fmt.Errorf("watching managed %s: %w", w.resource.GroupResource(), err)
	}
	events.Stop()
	return nil
}

// reflect watches the type until ctx ends or the server refuses. It tells
// whether it refused the watch, and not the list.
func (i *Inventory) reflect(ctx context.Context, w *typeWatch) (refusedWatch bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watchRefused atomic.Bool
	refused := func(err error, watching bool) {
		if err != nil && ctx.Err() == nil && i.failed(w, err) {
			watchRefused.Store(watching)
			cancel()
		}
	}
	reflector := cache.NewReflectorWithOptions(i.listWatch(w, refused), &metav1.PartialObjectMetadata{},
		&store{inventory: i, watch: w}, cache.ReflectorOptions{
			Name: "managed " + w.resource.GroupResource().String(), Backoff: relistBackoff(),
		})
	reflector.RunWithContext(ctx)
	return watchRefused.Load()
}

// managed selects the objects that we manage.
func managed() string { return labels.Set{workv1.LabelManaged: "true"}.String() }

// relistBackoff says how long to wait after a failed list or watch: soon at
// first, since what is not watched is not mended, and not often if a cluster
// stays away.
func relistBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: relistBackoffMax}
}

// listWatch lists and watches the managed objects of a type.
func (i *Inventory) listWatch(w *typeWatch, refused func(err error, watching bool)) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = managed()
			list, err := i.options.Client.Resource(w.resource).List(ctx, options)
			refused(err, false)
			if err != nil {
				return nil, fmt.Errorf("listing managed %s: %w", w.resource.GroupResource(), err)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = managed()
			events, err := i.options.Client.Resource(w.resource).Watch(ctx, options)
			refused(err, true)
			if err != nil {
				return nil, fmt.Errorf("watching managed %s: %w", w.resource.GroupResource(), err)
			}
			return events, nil
		},
	}
}

// failed notes why a type cannot be listed or watched, and tells whether that
// will last. A type that the server does not serve has no objects; one that we
// may not see is not known. Other errors pass.
func (i *Inventory) failed(w *typeWatch, err error) (lasts bool) {
	switch {
	case apierrors.IsNotFound(err):
		i.replace(w, nil, "")
		return true
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		i.blind(w, err)
		return true
	default:
		i.mu.Lock()
		defer i.mu.Unlock()
		if w.state == statePending {
			w.err = err
		}
		return false
	}
}

// blind forgets what is known of a type that we may not see.
func (i *Inventory) blind(w *typeWatch, err error) {
	i.mu.Lock()
	changed := w.state != stateBlind && !w.stopped
	w.state, w.err = stateBlind, err
	for key := range w.records {
		i.remove(w, objectOf(w.resource, key))
	}
	users := i.usersOf(w)
	i.mu.Unlock()
	if changed {
		i.options.TypeChanged(w.resource.GroupResource(), users)
	}
}

// replace makes the list all that there is of a type.
func (i *Inventory) replace(w *typeWatch, list []any, resourceVersion string) {
	var changes []Change
	i.mu.Lock()
	if w.stopped {
		i.mu.Unlock()
		return
	}
	synced := w.state == stateSynced
	w.state, w.err, w.seen = stateSynced, nil, resourceVersion
	listed := make(map[name]struct{}, len(list))
	for _, item := range list {
		seen, ok := item.(*metav1.PartialObjectMetadata)
		if !ok {
			continue
		}
		object := objectOf(w.resource, name{seen.Namespace, seen.Name})
		listed[nameOf(object)] = struct{}{}
		if old := w.records[nameOf(object)]; old == nil || newer(seen.ResourceVersion, old.ResourceVersion) {
			changes = appendChange(changes, i.update(w, object, seen))
		}
	}
	for key, record := range w.records {
		_, ok := listed[key]
		if ok || resourceVersion != "" && newer(record.ResourceVersion, resourceVersion) {
			continue
		}
		object := objectOf(w.resource, key)
		i.remove(w, object)
		changes = append(changes, Change{Object: object, Owners: record.Owners, Gone: true})
	}
	users := i.usersOf(w)
	i.mu.Unlock()
	if !synced {
		i.options.TypeChanged(w.resource.GroupResource(), users)
	}
	for _, change := range changes {
		i.options.Changed(change)
	}
}

// update takes in the state of an object that the server told, and returns
// what happened to it. Nobody has to know if that has no owners.
func (i *Inventory) update(w *typeWatch, object apply.Object, seen *metav1.PartialObjectMetadata) Change {
	before, after := i.insert(w, object, seen)
	change := Change{Object: object, Owners: after.Owners}
	switch {
	case before == nil:
	case before.Mark == after.Mark && equal(before.Going, after.Going):
		change.Minor = true
		if before.ResourceVersion == after.ResourceVersion && len(after.Owners) < 2 {
			change.Owners = nil // the write of the only owner, which knows
		}
	default:
		change.Owners = slices.Clone(after.Owners)
		for _, owner := range before.Owners {
			if !slices.Contains(change.Owners, owner) {
				change.Owners = append(change.Owners, owner)
			}
		}
	}
	return change
}

// equal tells whether the same holds up two states of an object, or nothing.
func equal(a, b *Going) bool {
	return (a == nil) == (b == nil) && (a == nil || slices.Equal(a.Finalizers, b.Finalizers))
}

// event takes in a watch event.
func (i *Inventory) event(w *typeWatch, item any, deleted bool) error {
	seen, ok := item.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("watching managed %s: got a %T", w.resource.GroupResource(), item)
	}
	object := objectOf(w.resource, name{seen.Namespace, seen.Name})
	var changes []Change
	i.mu.Lock()
	if w.stopped {
		i.mu.Unlock()
		return nil
	}
	w.seen = seen.ResourceVersion
	old := w.records[nameOf(object)]
	switch {
	case old != nil && newer(old.ResourceVersion, seen.ResourceVersion):
		// Saw was ahead of the watch.
	case deleted:
		if before := i.remove(w, object); before != nil {
			changes = []Change{{Object: object, Owners: before.Owners, Gone: true}}
		}
	default:
		changes = appendChange(nil, i.update(w, object, seen))
	}
	i.mu.Unlock()
	for _, change := range changes {
		i.options.Changed(change)
	}
	return nil
}

func (i *Inventory) bookmark(w *typeWatch, resourceVersion string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.seen = resourceVersion
}

func objectOf(resource schema.GroupVersionResource, key name) apply.Object {
	return apply.Object{Group: resource.Group, Resource: resource.Resource, Namespace: key.namespace, Name: key.name}
}

// store is what a reflector writes to.
type store struct {
	inventory *Inventory
	watch     *typeWatch
}

func (s *store) Add(item any) error    { return s.inventory.event(s.watch, item, false) }
func (s *store) Update(item any) error { return s.inventory.event(s.watch, item, false) }
func (s *store) Delete(item any) error { return s.inventory.event(s.watch, item, true) }
func (s *store) Resync() error         { return nil }

func (s *store) Bookmark(resourceVersion string) error {
	s.inventory.bookmark(s.watch, resourceVersion)
	return nil
}

func (s *store) Replace(list []any, resourceVersion string) error {
	s.inventory.replace(s.watch, list, resourceVersion)
	return nil
}

// Transformer drops what nobody looks at before the reflector buffers it.
func (s *store) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		if seen, ok := item.(*metav1.PartialObjectMetadata); ok {
			seen.ManagedFields = nil
		}
		return item, nil
	}
}
