// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"iter"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// objectStore has objects of one kind, so that those of a namespace, and those that a
// policy claims, are found without a look at all others.
type objectStore struct {
	byNamespace map[string]map[string]*metav1.PartialObjectMetadata
	byClaim     map[claim]map[*metav1.PartialObjectMetadata]bool
}

// claim is a label by which a policy claims objects.
type claim struct{ key, id string }

func newObjectStore() *objectStore {
	return &objectStore{byNamespace: map[string]map[string]*metav1.PartialObjectMetadata{}, byClaim: map[claim]map[*metav1.PartialObjectMetadata]bool{}}
}

// get returns an object, nil if there is none.
func (s *objectStore) get(name types.NamespacedName) *metav1.PartialObjectMetadata {
	return s.byNamespace[name.Namespace][name.Name]
}

// put adds an object, or puts it in the place of the one of its name.
func (s *objectStore) put(object *metav1.PartialObjectMetadata) {
	name := client.ObjectKeyFromObject(object)
	s.remove(name)
	if s.byNamespace[name.Namespace] == nil {
		s.byNamespace[name.Namespace] = map[string]*metav1.PartialObjectMetadata{}
	}
	s.byNamespace[name.Namespace][name.Name] = object
	for _, by := range claimsOf(object) {
		if s.byClaim[by] == nil {
			s.byClaim[by] = map[*metav1.PartialObjectMetadata]bool{}
		}
		s.byClaim[by][object] = true
	}
}

// remove removes an object.
func (s *objectStore) remove(name types.NamespacedName) {
	object := s.get(name)
	if object == nil {
		return
	}
	if delete(s.byNamespace[name.Namespace], name.Name); len(s.byNamespace[name.Namespace]) == 0 {
		delete(s.byNamespace, name.Namespace)
	}
	for _, by := range claimsOf(object) {
		if delete(s.byClaim[by], object); len(s.byClaim[by]) == 0 {
			delete(s.byClaim, by)
		}
	}
}

// inNamespace returns the objects of a namespace, and of all if it is "".
func (s *objectStore) inNamespace(namespace string) iter.Seq[*metav1.PartialObjectMetadata] {
	if namespace != "" {
		return maps.Values(s.byNamespace[namespace])
	}
	return func(yield func(*metav1.PartialObjectMetadata) bool) {
		for _, objects := range s.byNamespace {
			for _, object := range objects {
				if !yield(object) {
					return
				}
			}
		}
	}
}

// findInScope returns the objects of a scope, whose kind is that of the store.
func (s *objectStore) findInScope(scope selector.SearchScope) iter.Seq[*metav1.PartialObjectMetadata] {
	if scope.Name == "" {
		return s.inNamespace(scope.Namespace)
	}
	return func(yield func(*metav1.PartialObjectMetadata) bool) {
		if scope.Namespace != "" {
			if object := s.byNamespace[scope.Namespace][scope.Name]; object != nil {
				yield(object)
			}
			return
		}
		for _, objects := range s.byNamespace {
			if object := objects[scope.Name]; object != nil && !yield(object) {
				return
			}
		}
	}
}

func claimsOf(object *metav1.PartialObjectMetadata) []claim {
	var all []claim
	for _, key := range claims.LabelKeys() {
		if id := object.Labels[key]; id != "" {
			all = append(all, claim{key, id})
		}
	}
	return all
}
