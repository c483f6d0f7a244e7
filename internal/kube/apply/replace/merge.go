// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

// place is where in an object a value is, and what managers own there.
type place struct {
	// parent is where that is which the value is in, nil for the object, and element which of that it is.
	parent  *place
	element fieldpath.PathElement
	depth   int
	keep    keep
	// kept is what was decided of it and of what is in it, nil for nothing.
	kept *decision
	// isOthers and isOurs say who owns the value itself, others and ours what is in it.
	isOthers, isOurs bool
	others, ours     *fieldpath.Set
}

func (p place) child(element fieldpath.PathElement) place {
	return place{
		parent: &p, element: element, depth: p.depth + 1, keep: p.keep, kept: p.kept.of(element),
		isOthers: p.others.Members.Has(element), isOurs: p.ours.Members.Has(element),
		others: p.others.WithPrefix(element), ours: p.ours.WithPrefix(element),
	}
}

// path returns the way there. It is put together for who asks.
func (p place) path() fieldpath.Path {
	path := make(fieldpath.Path, p.depth)
	for at := &p; at.parent != nil; at = at.parent {
		path[at.depth-1] = at.element
	}
	return path
}

func (p place) field(name string) place { return p.child(fieldpath.PathElement{FieldName: &name}) }

// stays tells whether the value stays if the manifest does not have it.
func (p place) stays() bool {
	switch p.keep {
	case keepAll:
		return true
	case keepUnowned:
		return p.isOthers || !p.isOurs
	case keepOthers:
		return p.isOthers
	default:
		return false
	}
}

// isMetadata tells whether it is one of the maps or lists in the metadata of an object, which
// have parts in any API.
func (p place) isMetadata() bool {
	return p.depth == 2 && *p.parent.element.FieldName == "metadata"
}

// identity is what tells the items of a list apart there.
func (p place) identity() (identity owned.Identity, known bool) {
	if p.isMetadata() && *p.element.FieldName == "ownerReferences" {
		return owned.Identity{"uid"}, true
	}
	if p.isMetadata() && *p.element.FieldName == "finalizers" {
		return nil, true
	}
	return owned.IdentityIn(p.others, p.ours)
}

// merge returns what the manifest has, if it has something, with what stays of the object
// there; nil if neither is. It changes what the manifest has.
func (d *Draft) merge(given any, has bool, live any, at place) any {
	if at.kept != nil && at.kept.said {
		at.keep = at.kept.keep
	}
	has = has && given != nil // null is what is not there
	switch live := live.(type) {
	case map[string]any:
		if object, is := given.(map[string]any); !has || is {
			return d.mergeMap(object, has, live, at)
		}
	case []any:
		if list, is := given.([]any); !has || is {
			return d.mergeList(list, has, live, at)
		}
	default:
		if !has && at.stays() {
			return live
		}
	}
	return given
}

// isOne reports whether a map is one value to the API.
func (d *Draft) isOne(at place) bool {
	whole := (at.isOthers || at.isOurs) && at.others.Empty() && at.ours.Empty()
	return whole && !at.isMetadata() && d.declared.Whole(at.path(), false)
}

func (d *Draft) mergeMap(given map[string]any, has bool, live map[string]any, at place) any {
	if len(live) > 0 && d.isOne(at) {
		return one(given, has, live, at)
	}
	merged := given
	if merged == nil {
		merged = map[string]any{}
	}
	for _, key := range slices.Sorted(maps.Keys(live)) {
		inner, there := given[key]
		if value := d.merge(inner, there, live[key], at.field(key)); value != nil {
			merged[key] = value
		}
	}
	if !has && len(merged) == 0 && (len(live) > 0 || !at.stays()) {
		return nil
	}
	return merged
}

func (d *Draft) mergeList(given []any, has bool, live []any, at place) any {
	identity, known := at.identity()
	if !known {
		return one(given, has, live, at)
	}
	items := owned.NewItems(given, identity)
	merged := slices.Clone(given)
	// What stays has its place after what it came after.
	before := []any(nil)
	after := make([][]any, len(given))
	place := &before
	for _, item := range live {
		element, complete := items.Element(item)
		if !complete {
			continue
		}
		there := at.child(element)
		switch like := items.Like(item); len(like) {
		case 0:
			if value := d.mergeItem(item, there, identity); value != nil {
				*place = append(*place, value)
			}
		case 1:
			merged[like[0]] = d.merge(merged[like[0]], true, item, there)
			fallthrough
		default: // of one that is there twice, nobody can tell what else it has
			place = &after[slices.Max(like)]
		}
	}
	all := before
	for i, item := range merged {
		all = append(append(all, item), after[i]...)
	}
	if all == nil { // an empty list is not null
		all = []any{}
	}
	if !has && len(all) == 0 && (len(live) > 0 || !at.stays()) {
		return nil
	}
	return all
}

// mergeItem returns what stays of an item that the manifest does not have: nothing, unless
// the item itself is somebody's whose it stays. What it is found by is in it.
func (d *Draft) mergeItem(item any, at place, identity owned.Identity) any {
	if at.kept != nil && at.kept.said {
		at.keep = at.kept.keep
	}
	if !at.stays() {
		return nil
	}
	value := d.merge(nil, false, item, at)
	if merged, is := value.(map[string]any); is {
		whole, _ := item.(map[string]any)
		for _, key := range identity {
			merged[key] = whole[key]
		}
	}
	return value
}

// one is merge for a map or list that has no parts.
func one(given any, has bool, live any, at place) any {
	switch {
	case has:
		return given
	case at.stays():
		return runtime.DeepCopyJSONValue(live)
	default:
		return nil
	}
}
