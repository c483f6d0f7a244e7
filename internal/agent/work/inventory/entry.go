// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// Whoever may write an object of the member may give it a megabyte of metadata, and the label by which it
// is watched. What is kept of each is bounded, so that all that there may be fit into the memory.
const (
	// ownersFirst is how many owners of an object are kept in any case, and ownersOfObject at most.
	ownersFirst    = 4
	ownersOfObject = 4000
	// ownersBytesMax is how many bytes owners beyond the first of each object may have in all lists that are
	// being read, each with its name, its UID and what it takes itself: a namespace can be in many works.
	ownersBytesMax = 32 << 20
	ownerOverhead  = 128
	// ownersMax is how many different owners all objects may have, and pairsMax how many pairs of an object
	// and an owner there may be, before only the first owners of further objects are kept.
	ownersMax = 100_000
	pairsMax  = 1_000_000
	// ownerBytesMax is more than the name and the UID of an AppliedManifestWork have.
	ownerBytesMax = 320
	// finalizersMax and finalizersBytesMax are how many finalizers, and bytes of them, are kept. They are told to
	// people.
	finalizersMax      = 16
	finalizersBytesMax = 512
)

// watchedObject is what a watch keeps of the metadata of an object: its identity, which AppliedManifestWorks own
// it, each of them once, which finalizers keep it if it is being deleted, and the mark of all of its metadata.
type watchedObject struct {
	metav1.PartialObjectMetadata

	mark apply.Fingerprint
}

// reduceObject returns what is kept of an object that the server tells.
func (w *typeWatch) reduceObject(whole *metav1.PartialObjectMetadata) *watchedObject {
	return watchedObjectOf(objectOf(w.resource, objectName{whole.Namespace, whole.Name}), whole, w.further)
}

// ownersRoom counts the bytes of owners beyond the first of each object that one watch has reduced and not taken in yet.
// It is safe for concurrent use: a list may be under way when the watch has ended.
type ownersRoom struct {
	// taken is of all watches of an inventory.
	taken *atomic.Int64

	mu     sync.Mutex
	own    int64
	closed bool
}

// takeRoom reports whether there is room for more bytes, which then count.
func (r *ownersRoom) takeRoom(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	room := r.taken.Add(int64(bytes)) <= ownersBytesMax
	if room {
		r.own += int64(bytes)
	} else {
		r.taken.Add(int64(-bytes))
	}
	return room
}

// freeRoom gives back what the watch has taken.
func (r *ownersRoom) freeRoom() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken.Add(-r.own)
	r.own = 0
}

// closeRoom gives back what the watch has taken, and lets it take no more.
func (r *ownersRoom) closeRoom() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.freeRoom()
}

// watchedObjectOf returns what is kept of an object as the server tells it. Owners beyond the first take of the
// room for further ones; without room for them they are left out.
func watchedObjectOf(of apply.ObjectRef, whole *metav1.PartialObjectMetadata, further *ownersRoom) *watchedObject {
	kept := &watchedObject{PartialObjectMetadata: *watch.ReduceToIdentity(whole), mark: apply.FingerprintOf(of, whole)}
	kept.mark.UID = kept.UID
	if kept.mark.ResourceVersion != "" {
		kept.mark.ResourceVersion = kept.ResourceVersion
	}
	owners := map[types.UID]struct{}{} // an API server may say one twice
	for i := range whole.OwnerReferences {
		reference := &whole.OwnerReferences[i]
		size := len(reference.Name) + len(reference.UID)
		if reference.Kind != workv1.KindAppliedManifestWork || !strings.HasPrefix(reference.APIVersion, workv1.GroupName+"/") || size > ownerBytesMax {
			continue
		}
		if _, twice := owners[reference.UID]; twice {
			continue
		}
		if len(owners) >= ownersOfObject || len(owners) >= ownersFirst && !further.takeRoom(size+ownerOverhead) {
			break
		}
		owners[reference.UID] = struct{}{}
		kept.OwnerReferences = append(kept.OwnerReferences, metav1.OwnerReference{Name: reference.Name, UID: reference.UID})
	}
	if whole.DeletionTimestamp != nil {
		kept.Finalizers = truncateFinalizers(whole.Finalizers)
	}
	return kept
}

// truncateFinalizers returns the first finalizers of a list, which need not stay.
func truncateFinalizers(finalizers []string) []string {
	var first []string
	bytes := 0
	for i, finalizer := range finalizers {
		if bytes += len(finalizer); bytes > finalizersBytesMax || i == finalizersMax {
			return append(first, "…")
		}
		first = append(first, finalizer)
	}
	return first
}
