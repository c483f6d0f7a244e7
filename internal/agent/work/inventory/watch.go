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

// watchState is how much is known of a type.
type watchState uint8

const (
	statePending watchState = iota
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

	// further is for owners beyond the first of each object.
	further *ownersRoom
	stopped bool // what the watch still says is not wanted
	state   watchState
	err     error  // why it is not synced, nil if nobody has said
	seen    string // the resourceVersion up to which the records are complete
	records map[objectName]*ObjectRecord
}

// stateError returns the same error each time, as many may ask and keep it.
func (w *typeWatch) stateError() error {
	switch {
	case w.state == stateSynced:
		return nil
	case w.err != nil:
		return w.err
	default:
		return ErrPending
	}
}

func (i *Inventory) startWatch(ctx context.Context, resource schema.GroupVersionResource) *typeWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &typeWatch{
		inventory: i, resource: resource, cancel: cancel, records: map[objectName]*ObjectRecord{}, further: &ownersRoom{taken: &i.furtherOwners},
	}
	i.options.Go(func() {
		defer w.further.closeRoom()
		run := watch.Watch[*watchedObject]{
			Source:  watch.ReducedMetadataSource(i.options.Client, resource, watch.ObjectSelector{Labels: labels.Set{workv1.LabelManaged: "true"}.String()}, w.reduceObject),
			Handler: w,
		}
		run.RunReflector(dial.ReducedContext(ctx))
	})
	return w
}

// Failed notes why a type cannot be listed or watched. A type that the server
// does not serve has no objects; one that we may not see is not known. Other
// errors pass.
func (w *typeWatch) Failed(err error) {
	w.further.freeRoom()
	switch {
	case apierrors.IsNotFound(err):
		w.Replace(nil, "")
	case watch.IsRefused(err):
		w.markBlind(err)
	default:
		w.inventory.mu.Lock()
		defer w.inventory.mu.Unlock()
		if w.state == statePending {
			w.err = fmt.Errorf("%w: %w", ErrPending, err)
		}
	}
}

// markBlind forgets what is known of a type that we may not see.
func (w *typeWatch) markBlind(err error) {
	if changed, users := w.dropRecords(err); changed {
		w.inventory.options.TypeChanged(w.resource.GroupResource(), users)
	}
}

// dropRecords drops the records for an error, and returns who has to know, if that is news.
func (w *typeWatch) dropRecords(err error) (changed bool, users []string) {
	i := w.inventory
	i.mu.Lock()
	defer i.mu.Unlock()
	changed = w.state != stateBlind && !w.stopped
	w.state = stateBlind
	w.err = err
	for key := range w.records {
		i.removeRecord(w, objectOf(w.resource, key))
	}
	return changed, i.uses.UsersOf(w.resource.GroupResource())
}

// Replace makes the list all that there is of a type.
func (w *typeWatch) Replace(list []*watchedObject, resourceVersion string) {
	w.further.freeRoom()
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
func (w *typeWatch) takeList(list []*watchedObject, resourceVersion string) (changes []ObjectChange, first bool, users []string) {
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
	listed := make(map[objectName]struct{}, len(list))
	for _, seen := range list {
		object := objectOf(w.resource, objectName{seen.Namespace, seen.Name})
		listed[objectNameOf(object)] = struct{}{}
		if old := w.records[objectNameOf(object)]; old == nil || isNewerVersion(seen.ResourceVersion, old.ResourceVersion) {
			changes = appendChange(changes, i.updateRecord(w, object, seen))
		}
	}
	for key, record := range w.records {
		_, ok := listed[key]
		if ok || resourceVersion != "" && isNewerVersion(record.ResourceVersion, resourceVersion) {
			continue
		}
		object := objectOf(w.resource, key)
		i.removeRecord(w, object)
		changes = append(changes, ObjectChange{Object: object, Owners: record.Owners, Gone: true})
	}
	return changes, first, i.uses.UsersOf(w.resource.GroupResource())
}

// updateRecord takes in the state of an object that the server told, and returns
// what happened to it. Nobody has to know if that has no owners.
func (i *Inventory) updateRecord(w *typeWatch, object apply.ObjectRef, seen *watchedObject) ObjectChange {
	before, after := i.insertRecord(w, object, seen)
	change := ObjectChange{Object: object, Owners: after.Owners}
	switch {
	case before == nil:
	case before.Mark == after.Mark && sameDeletion(before.Going, after.Going):
		change.Minor = true
		if before.ResourceVersion == after.ResourceVersion && len(after.Owners) < 2 {
			change.Owners = nil // the write of the only owner, which knows
		}
	default:
		change.Owners = slices.Concat(after.Owners, ownersWithout(before.Owners, after.Owners))
	}
	return change
}

// sameDeletion reports whether the same holds up two states of an object, or nothing.
func sameDeletion(a, b *DeletionState) bool {
	return (a == nil) == (b == nil) && (a == nil || slices.Equal(a.Finalizers, b.Finalizers))
}

// Update takes in an object that is new or has changed.
func (w *typeWatch) Update(seen *watchedObject) { w.handleEvent(seen, false) }

// Delete takes in an object that is gone, or has lost its label.
func (w *typeWatch) Delete(seen *watchedObject) { w.handleEvent(seen, true) }

func (w *typeWatch) handleEvent(seen *watchedObject, deleted bool) {
	w.further.freeRoom()
	for _, change := range w.takeEvent(seen, deleted) {
		w.inventory.options.Changed(change)
	}
}

// takeEvent takes in what an event tells, and returns what that changes.
func (w *typeWatch) takeEvent(seen *watchedObject, deleted bool) []ObjectChange {
	i := w.inventory
	object := objectOf(w.resource, objectName{seen.Namespace, seen.Name})
	i.mu.Lock()
	defer i.mu.Unlock()
	if w.stopped {
		return nil
	}
	w.seen = seen.ResourceVersion
	old := w.records[objectNameOf(object)]
	switch {
	case old != nil && isNewerVersion(old.ResourceVersion, seen.ResourceVersion):
		return nil // Saw was ahead of the watch
	case !deleted:
		return appendChange(nil, i.updateRecord(w, object, seen))
	}
	if before := i.removeRecord(w, object); before != nil {
		return []ObjectChange{{Object: object, Owners: before.Owners, Gone: true}}
	}
	return nil
}

// Bookmark takes in how far the watch is.
func (w *typeWatch) Bookmark(resourceVersion string) {
	w.inventory.mu.Lock()
	defer w.inventory.mu.Unlock()
	w.seen = resourceVersion
}

func objectOf(resource schema.GroupVersionResource, key objectName) apply.ObjectRef {
	return apply.ObjectRef{Group: resource.Group, Resource: resource.Resource, Namespace: key.namespace, Name: key.name}
}
