// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// fewObjects is up to how many objects a list is smaller than a map, and fast
// enough. Most works have no more.
const fewObjects = 8

// objectSet is a set of objects. The zero value is empty.
type objectSet struct {
	few  []apply.ObjectRef
	many map[apply.ObjectRef]struct{} // used instead if it is not nil
}

func (s *objectSet) addObject(object apply.ObjectRef) {
	switch {
	case s.many != nil:
		s.many[object] = struct{}{}
	case slices.Contains(s.few, object):
	case len(s.few) < fewObjects:
		s.few = append(s.few, object)
	default:
		s.many = map[apply.ObjectRef]struct{}{object: {}}
		for _, each := range s.few {
			s.many[each] = struct{}{}
		}
		s.few = nil
	}
}

func (s *objectSet) removeObject(object apply.ObjectRef) {
	if s.many != nil {
		delete(s.many, object)
		return
	}
	if i := slices.Index(s.few, object); i >= 0 {
		s.few = slices.Delete(s.few, i, i+1)
	}
}

func (s *objectSet) size() int { return len(s.few) + len(s.many) }

// allObjects returns the objects in any order.
func (s *objectSet) allObjects() []apply.ObjectRef {
	if s.many != nil {
		return slices.Collect(maps.Keys(s.many))
	}
	return slices.Clone(s.few)
}
