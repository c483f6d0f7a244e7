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
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/watch"
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
	if changed, users := w.forget(err); changed {
		w.inventory.options.TypeChanged(w.resource.GroupResource(), users)
	}
}

// forget drops the records for an error, and returns who has to know, if that is news.
func (w *typeWatch) forget(err error) (changed bool, users []string) {
	i := w.inventory
	i.mu.Lock()
	defer i.mu.Unlock()
	changed = w.state != stateBlind && !w.stopped
	w.state = stateBlind
	w.err = err
	for key := range w.records {
		i.remove(w, objectOf(w.resource, key))
	}
	return changed, i.uses.Users(w.resource.GroupResource())
}

// Replace makes the list all that there is of a type.
func (w *typeWatch) Replace(list []*entry, resourceVersion string) {
	w.further = 0
	changes, first, users := w.takeList(list, resourceVersion)
	if first {
		w.inventory.options.TypeChanged(w.resource.GroupResource(), users)
	}
	for _, change := range changes {
		w.inventory.options.Changed(change)
	}
}

// takeList makes the list all that there is of a type, and returns what that changes, and whether it
// is the first list, which the users have to know.
func (w *typeWatch) takeList(list []*entry, resourceVersion string) (changes []Change, first bool, users []string) {
	i := w.inventory
	i.mu.Lock()
	defer i.mu.Unlock()
	if w.stopped {
		return nil, false, nil
	}
	first = w.state != stateSynced
	w.state = stateSynced
	w.err = nil
	w.seen = resourceVersion
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
	return changes, first, i.uses.Users(w.resource.GroupResource())
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
	for _, change := range w.takeEvent(seen, deleted) {
		w.inventory.options.Changed(change)
	}
}

// takeEvent takes in what an event tells, and returns what that changes.
func (w *typeWatch) takeEvent(seen *entry, deleted bool) []Change {
	i := w.inventory
	object := objectOf(w.resource, name{seen.Namespace, seen.Name})
	i.mu.Lock()
	defer i.mu.Unlock()
	if w.stopped {
		return nil
	}
	w.seen = seen.ResourceVersion
	old := w.records[nameOf(object)]
	switch {
	case old != nil && newer(old.ResourceVersion, seen.ResourceVersion):
		return nil // Saw was ahead of the watch
	case !deleted:
		return appendChange(nil, i.update(w, object, seen))
	}
	if before := i.remove(w, object); before != nil {
		return []Change{{Object: object, Owners: before.Owners, Gone: true}}
	}
	return nil
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
