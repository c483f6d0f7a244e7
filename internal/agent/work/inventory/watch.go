// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/dial"
	"github.com/capstan-io/capstan/internal/watch"
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
	inventory *Inventory
	resource  schema.GroupVersionResource
	cancel    context.CancelFunc

	// further is how many bytes the owners have beyond the first of each object that were reduced and
	// not taken in yet. Only the watch uses it.
	further int
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
	w := &typeWatch{inventory: i, resource: resource, cancel: cancel, records: map[name]*Record{}}
	i.options.Go(func() {
		run := watch.Watch[*entry]{
			Source:  watch.ReducedMetadata(i.options.Client, resource, watch.Selector{Labels: labels.Set{workv1.LabelManaged: "true"}.String()}, w.reduce),
			Handler: w,
		}
		run.Run(dial.Reduced(ctx))
	})
	return w
}

// Failed notes why a type cannot be listed or watched. A type that the server
// does not serve has no objects; one that we may not see is not known. Other
// errors pass.
func (w *typeWatch) Failed(err error) {
	switch {
	case apierrors.IsNotFound(err):
		w.Replace(nil, "")
	case watch.Refused(err):
		w.blind(err)
	default:
		w.inventory.mu.Lock()
		defer w.inventory.mu.Unlock()
		if w.state == statePending {
			w.err = err
		}
	}
}

// blind forgets what is known of a type that we may not see.
func (w *typeWatch) blind(err error) {
	i := w.inventory
	i.mu.Lock()
	changed := w.state != stateBlind && !w.stopped
	w.state, w.err = stateBlind, err
	for key := range w.records {
		i.remove(w, objectOf(w.resource, key))
	}
	users := i.uses.Users(w.resource.GroupResource())
	i.mu.Unlock()
	if changed {
		i.options.TypeChanged(w.resource.GroupResource(), users)
	}
}

// Replace makes the list all that there is of a type.
func (w *typeWatch) Replace(list []*entry, resourceVersion string) {
	w.further = 0
	i := w.inventory
	var changes []Change
	i.mu.Lock()
	if w.stopped {
		i.mu.Unlock()
		return
	}
	synced := w.state == stateSynced
	w.state, w.err, w.seen = stateSynced, nil, resourceVersion
	listed := make(map[name]struct{}, len(list))
	for _, seen := range list {
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
	users := i.uses.Users(w.resource.GroupResource())
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
func (i *Inventory) update(w *typeWatch, object apply.Object, seen *entry) Change {
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

// Update takes in an object that is new or has changed.
func (w *typeWatch) Update(seen *entry) { w.event(seen, false) }

// Delete takes in an object that is gone, or has lost its label.
func (w *typeWatch) Delete(seen *entry) { w.event(seen, true) }

func (w *typeWatch) event(seen *entry, deleted bool) {
	w.further = 0
	i := w.inventory
	object := objectOf(w.resource, name{seen.Namespace, seen.Name})
	var changes []Change
	i.mu.Lock()
	if w.stopped {
		i.mu.Unlock()
		return
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
}

// Bookmark takes in how far the watch is.
func (w *typeWatch) Bookmark(resourceVersion string) {
	w.inventory.mu.Lock()
	defer w.inventory.mu.Unlock()
	w.seen = resourceVersion
}

func objectOf(resource schema.GroupVersionResource, key name) apply.Object {
	return apply.Object{Group: resource.Group, Resource: resource.Resource, Namespace: key.namespace, Name: key.name}
}
