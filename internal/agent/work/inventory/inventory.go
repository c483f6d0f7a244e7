// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory tracks which objects of a member are managed, and notifies
// when they change.
//
// It watches the metadata of objects with the managed label, of the types
// that someone uses, and keeps a few words for each: what it costs grows with
// what is managed, not with what the member has. It decides nothing and
// writes nothing.
package inventory

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/watch"
	"github.com/capstan-io/capstan/internal/kube/written"
)

// Owner is an AppliedManifestWork that owns an object.
type Owner struct {
	UID  types.UID
	Name string
}

// ObjectRecord is what the inventory keeps of an object. It does not change.
type ObjectRecord struct {
	// Version is the API version that the type is watched in.
	Version         string
	ResourceVersion string
	Mark            apply.Fingerprint
	// Owners are sorted by UID.
	Owners []*Owner
	// Going is nil unless the object is being deleted.
	Going *DeletionState
}

// DeletionState is what is known of an object that is being deleted.
type DeletionState struct {
	Since      int64    // in seconds since 1970
	Finalizers []string // keep it
}

// OwnerUIDs returns the UIDs of the owners.
func (r *ObjectRecord) OwnerUIDs() []types.UID {
	uids := make([]types.UID, 0, len(r.Owners))
	for _, owner := range r.Owners {
		uids = append(uids, owner.UID)
	}
	return uids
}

// ObjectChange is something that happened to an object.
type ObjectChange struct {
	Object apply.ObjectRef
	// Owners are those before and after the change.
	Owners []*Owner
	// Gone says that the object has been deleted, or lost its label.
	Gone bool
	// Minor says that nothing changed that the Mark covers: the status, for
	// example, or what another owner wrote.
	Minor bool
}

// WatchOptions of an Inventory.
type WatchOptions struct {
	Client metadata.Interface
	// Go runs a function until the inventory's context ends.
	Go func(func())
	// Changed is told of changes, from several goroutines. It has to return soon.
	Changed func(ObjectChange)
	// TypeChanged is told when it is known what there is of a type, or that it
	// cannot be known. The users are those of the type.
	TypeChanged func(resource schema.GroupResource, users []string)
}

// Inventory holds the records. It is safe for concurrent use.
type Inventory struct {
	options WatchOptions

	mu     sync.RWMutex
	types  map[schema.GroupResource]*typeWatch
	uses   watch.UseCounter[schema.GroupResource]
	owners map[types.UID]*ownedObjects
	// pairs is how many pairs of an object and an owner the records have.
	pairs int

	// furtherOwners is of all watches together; see ownersRoom.
	furtherOwners atomic.Int64
}

// ownedObjects are the objects of an owner.
type ownedObjects struct {
	owner   *Owner
	objects objectSet
}

// NewInventory returns an inventory that watches nothing yet.
func NewInventory(options WatchOptions) *Inventory {
	return &Inventory{
		options: options,
		types:   map[schema.GroupResource]*typeWatch{},
		owners:  map[types.UID]*ownedObjects{},
	}
}

// Get returns the record of an object, nil if there is none. Known tells
// whether that means that there is no such object; if it is false, the type
// is not watched, or its watch has not listed yet.
func (i *Inventory) Get(object apply.ObjectRef) (record *ObjectRecord, known bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	w, ok := i.types[schema.GroupResource{Group: object.Group, Resource: object.Resource}]
	if !ok {
		return nil, false
	}
	return w.records[objectNameOf(object)], w.state == stateSynced
}

// TypeState returns an error if the objects of the type are not known: ErrPending
// if they will be soon, with what the server said if it answered with an
// error, or why they cannot be.
func (i *Inventory) TypeState(resource schema.GroupResource) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	w, ok := i.types[resource]
	switch {
	case ok:
		return w.stateError()
	case len(i.types) >= typesMax:
		return errManyTypes
	default:
		return ErrPending
	}
}

// OwnedBy returns the objects that the owner owns, sorted.
func (i *Inventory) OwnedBy(owner types.UID) []apply.ObjectRef {
	i.mu.RLock()
	defer i.mu.RUnlock()
	o, ok := i.owners[owner]
	if !ok {
		return nil
	}
	objects := o.objects.allObjects()
	slices.SortFunc(objects, func(a, b apply.ObjectRef) int { return strings.Compare(a.String(), b.String()) })
	return objects
}

// CountOwned returns how many objects the owner owns.
func (i *Inventory) CountOwned(owner types.UID) int {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if o, ok := i.owners[owner]; ok {
		return o.objects.size()
	}
	return 0
}

// ObserveWrite takes in an object as the server returned it to a write of the owner by,
// so that it need not be waited for. Changed is told of it for all but that
// owner, as the watch will say nothing new. What is older than what the watch
// has said is ignored.
func (i *Inventory) ObserveWrite(object apply.ObjectRef, seen *metav1.PartialObjectMetadata, by types.UID) {
	if change, news := i.applyWrite(object, seen); news && !change.Minor {
		change.Owners = slices.DeleteFunc(slices.Clone(change.Owners), func(o *Owner) bool { return o.UID == by })
		i.options.Changed(change)
	}
}

func (i *Inventory) applyWrite(object apply.ObjectRef, seen *metav1.PartialObjectMetadata) (change ObjectChange, news bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w, ok := i.types[schema.GroupResource{Group: object.Group, Resource: object.Resource}]
	if !ok || w.state == stateBlind || !isNewerVersion(seen.ResourceVersion, w.seen) {
		return ObjectChange{}, false
	}
	old := w.records[objectNameOf(object)]
	if old != nil && !isNewerVersion(seen.ResourceVersion, old.ResourceVersion) {
		return ObjectChange{}, false
	}
	if seen.Labels[workv1.LabelManaged] == "" {
		before := i.removeRecord(w, object)
		if before == nil {
			return ObjectChange{}, false
		}
		return ObjectChange{Object: object, Owners: before.Owners, Gone: true}, true
	}
	return i.updateRecord(w, object, watchedObjectOf(object, seen, &ownersRoom{taken: &atomic.Int64{}})), true
}

// insertRecord replaces the record of an object and returns the old and the new one.
func (i *Inventory) insertRecord(w *typeWatch, object apply.ObjectRef, seen *watchedObject) (before, after *ObjectRecord) {
	before = w.records[objectNameOf(object)]
	var had []*Owner
	if before != nil {
		had = before.Owners
	}
	after = &ObjectRecord{
		Version: w.resource.Version, ResourceVersion: seen.ResourceVersion,
		Mark: seen.mark, Owners: i.ownersOf(seen, pairsMax-(i.pairs-len(had))),
	}
	if seen.DeletionTimestamp != nil {
		after.Going = &DeletionState{Since: seen.DeletionTimestamp.Unix(), Finalizers: seen.Finalizers}
	}
	if before != nil && before.Mark == after.Mark { // what wrote the object has these texts, too
		after.Mark = before.Mark
	}
	w.records[objectNameOf(object)] = after
	i.dropOwners(object, had, after.Owners)
	for _, owner := range after.Owners {
		i.owners[owner.UID].objects.addObject(object)
	}
	return before, after
}

func (i *Inventory) removeRecord(w *typeWatch, object apply.ObjectRef) *ObjectRecord {
	before := w.records[objectNameOf(object)]
	if before != nil {
		delete(w.records, objectNameOf(object))
		i.dropOwners(object, before.Owners, nil)
	}
	return before
}

// dropOwners drops an object from the owners that it had before and has not now.
func (i *Inventory) dropOwners(object apply.ObjectRef, before, now []*Owner) {
	i.pairs += len(now) - len(before)
	for _, owner := range ownersWithout(before, now) {
		o, ok := i.owners[owner.UID]
		if !ok {
			continue
		}
		o.objects.removeObject(object)
		if o.objects.size() == 0 {
			delete(i.owners, owner.UID)
		}
	}
}

// ownersWithout returns those owners that are not among the others. All are sorted by UID.
func ownersWithout(owners, others []*Owner) []*Owner {
	var left []*Owner
	for _, owner := range owners {
		for len(others) > 0 && others[0].UID < owner.UID {
			others = others[1:]
		}
		if len(others) == 0 || others[0].UID != owner.UID {
			left = append(left, owner)
		}
	}
	return left
}

// ownersOf returns the AppliedManifestWorks that own an object, each as the
// one value that all objects of it share: the first, and as many as there is room for.
func (i *Inventory) ownersOf(seen *watchedObject, room int) []*Owner {
	references := seen.OwnerReferences[:min(len(seen.OwnerReferences), max(room, ownersFirst))]
	var owners []*Owner
	for j := range references {
		reference := &references[j]
		o, ok := i.owners[reference.UID]
		if !ok && len(i.owners) >= ownersMax {
			continue
		}
		if !ok {
			o = &ownedObjects{owner: &Owner{UID: reference.UID, Name: reference.Name}}
			i.owners[reference.UID] = o
		}
		owners = append(owners, o.owner)
	}
	slices.SortFunc(owners, func(a, b *Owner) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return owners
}

// isNewerVersion reports whether version a of a type was written after b. Nothing is
// older than everything; versions that cannot be compared count as newer.
func isNewerVersion(a, b string) bool {
	return !written.IsSince(b, a)
}

// objectName is the namespace and name of an object.
type objectName struct{ namespace, name string }

func objectNameOf(object apply.ObjectRef) objectName {
	return objectName{object.Namespace, object.Name}
}

// appendChange leaves out what nobody has to know.
func appendChange(changes []ObjectChange, change ObjectChange) []ObjectChange {
	if len(change.Owners) == 0 {
		return changes
	}
	return append(changes, change)
}
