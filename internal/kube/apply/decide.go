// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/kube/written"
)

// Fingerprint is equal for two states of an object if nothing happened in between
// that could have changed what a manifest says of it.
type Fingerprint struct {
	UID types.UID
	// Generation counts the changes of what is desired.
	Generation int64
	// ResourceVersion is set for objects whose generation counts nothing.
	ResourceVersion string
	// Metadata is a hash of labels, annotations and owners, which no generation counts.
	Metadata uint64
}

// GenerationCounts reports whether the generation of objects of a resource, if they have one, rises
// with each change of what is desired. That of a PriorityClass is always 1.
func GenerationCounts(of schema.GroupResource) bool {
	return of != schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
}

// FingerprintOf returns the mark of an object as it is in the cluster.
func FingerprintOf(of ObjectRef, object metav1.Object) Fingerprint {
	mark := Fingerprint{UID: object.GetUID(), Generation: object.GetGeneration()}
	if mark.Generation == 0 || !GenerationCounts(schema.GroupResource{Group: of.Group, Resource: of.Resource}) {
		mark.ResourceVersion = object.GetResourceVersion()
		return mark
	}
	// A sum does not depend on the order of the maps.
	for key, value := range object.GetLabels() {
		mark.Metadata += hashText(hashText(fnvOffset, key), value)
	}
	for key, value := range object.GetAnnotations() {
		mark.Metadata += hashText(hashText(hashText(fnvOffset, "@"), key), value)
	}
	owners := object.GetOwnerReferences()
	for i := range owners {
		mark.Metadata += hashText(hashText(fnvOffset, "#"), string(owners[i].UID))
	}
	return mark
}

// The constants of the 64-bit FNV-1a hash.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

func hashText(hash uint64, text string) uint64 {
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * fnvPrime
	}
	return (hash ^ 0xff) * fnvPrime // so that "ab","c" is not "a","bc"
}

// LastWrite is what was written last, and what the object was like then. The zero
// value is "never".
type LastWrite struct {
	Hash ManifestHash
	Mark Fingerprint
}

// LiveState is what is known of the object in the cluster without asking.
type LiveState struct {
	// Known says that the fields below can be relied on.
	Known bool
	// Exists says that the object is there and has our label.
	Exists bool
	// Owned says that the caller's owner is among its owners.
	Owned bool
	// Deleting says that the object waits for its finalizers.
	Deleting bool
	Mark     Fingerprint
}

// Ownership is what an owner has to do to let go of an object.
type Ownership uint8

// The claims.
const (
	// ClaimNone: the object is not the owner's.
	ClaimNone Ownership = iota
	// ClaimShared: others own it too; it has to stay.
	ClaimShared
	// ClaimSole: nobody else owns it.
	ClaimSole
)

// OwnershipOf tells how an owner stands to an object that has the given owners
// of the same kind.
func OwnershipOf(owner types.UID, owners []types.UID) Ownership {
	switch {
	case !slices.Contains(owners, owner):
		return ClaimNone
	case len(owners) > 1:
		return ClaimShared
	default:
		return ClaimSole
	}
}

// NewestVersion returns the one of two states of an object that was written later:
// what we wrote may be ahead of a cache.
func NewestVersion[T metav1.Object](cached, answer T) T {
	if written.IsAfter(answer.GetResourceVersion(), cached.GetResourceVersion()) {
		return answer
	}
	return cached
}
