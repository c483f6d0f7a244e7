// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// Whoever may write an object of the member may give it a megabyte of metadata, and the label by which it
// is watched. What is kept of each is bounded, so that all that there may be fit into the memory.
const (
	// ownersFirst is how many owners of an object are kept in any case, and ownersBytesMax how many
	// bytes of names and UIDs all further ones in a list may have: a namespace can be in many works.
	ownersFirst    = 4
	ownersBytesMax = 16 << 20
	// ownersMax is how many different owners all objects may have.
	ownersMax = 100_000
	// ownerBytesMax is more than the name and the UID of an AppliedManifestWork have.
	ownerBytesMax = 320
	// finalizersBytesMax is how many bytes of finalizers are kept. They are told to people.
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
	return watchedObjectOf(objectOf(w.resource, objectName{whole.Namespace, whole.Name}), whole, &w.further)
}

// watchedObjectOf returns what is kept of an object as the server tells it. The bytes of owners beyond the first are added to those of
// further ones; without room for them they are left out.
func watchedObjectOf(of apply.ObjectRef, whole *metav1.PartialObjectMetadata, further *int) *watchedObject {
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
		owners[reference.UID] = struct{}{}
		if len(kept.OwnerReferences) >= ownersFirst {
			if *further+size > ownersBytesMax {
				break
			}
			*further += size
		}
		kept.OwnerReferences = append(kept.OwnerReferences, metav1.OwnerReference{Name: reference.Name, UID: reference.UID})
	}
	if whole.DeletionTimestamp != nil {
		kept.Finalizers = truncateFinalizers(whole.Finalizers)
	}
	return kept
}

// truncateFinalizers returns the first finalizers of a list.
func truncateFinalizers(finalizers []string) []string {
	bytes := 0
	for i, finalizer := range finalizers {
		if bytes += len(finalizer); bytes > finalizersBytesMax {
			return append(finalizers[:i:i], "…")
		}
	}
	return finalizers
}
