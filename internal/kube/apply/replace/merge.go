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

// valuePlace is where in an object a value is, and what managers own there.
type valuePlace struct {
	// parent is where that is which the value is in, nil for the object, and element which of that it is.
	parent  *valuePlace
	element fieldpath.PathElement
	depth   int
	keep    keepRule
	// kept is what was decided of it and of what is in it, nil for nothing.
	kept *keepDecision
	// isOthers and isOurs say who owns the value itself, others and ours what is in it.
	isOthers, isOurs bool
	others, ours     *fieldpath.Set
}

func (p valuePlace) childPlace(element fieldpath.PathElement) valuePlace {
	return valuePlace{
		parent: &p, element: element, depth: p.depth + 1, keep: p.keep, kept: p.kept.decisionFor(element),
		isOthers: p.others.Members.Has(element), isOurs: p.ours.Members.Has(element),
		others: p.others.WithPrefix(element), ours: p.ours.WithPrefix(element),
	}
}

// fieldPath returns the way there. It is put together for who asks.
func (p valuePlace) fieldPath() fieldpath.Path {
	path := make(fieldpath.Path, p.depth)
	for at := &p; at.parent != nil; at = at.parent {
		path[at.depth-1] = at.element
	}
	return path
}

func (p valuePlace) fieldPlace(name string) valuePlace {
	return p.childPlace(fieldpath.PathElement{FieldName: &name})
}

// staysUnlessGiven reports whether the value stays if the manifest does not have it.
func (p valuePlace) staysUnlessGiven() bool {
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

// isMetadata reports whether it is one of the maps or lists in the metadata of an object, which
// have parts in any API.
func (p valuePlace) isMetadata() bool {
	return p.depth == 2 && *p.parent.element.FieldName == "metadata"
}

// itemIdentity is what tells the items of a list apart there.
func (p valuePlace) itemIdentity() (identity owned.ItemIdentity, known bool) {
	if p.isMetadata() && *p.element.FieldName == "ownerReferences" {
		return owned.ItemIdentity{"uid"}, true
	}
	if p.isMetadata() && *p.element.FieldName == "finalizers" {
		return nil, true
	}
	return owned.IdentityIn(p.others, p.ours)
}

// mergeValue returns what the manifest has, if it has something, with what stays of the object
// there; nil if neither is. It changes what the manifest has.
func (d *Draft) mergeValue(given any, has bool, live any, at valuePlace) any {
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
		if !has && at.staysUnlessGiven() {
			return live
		}
	}
	return given
}

// isAtomicMap reports whether a map is one value to the API.
func (d *Draft) isAtomicMap(at valuePlace) bool {
	whole := (at.isOthers || at.isOurs) && at.others.Empty() && at.ours.Empty()
	return whole && !at.isMetadata() && d.declared.IsAtomic(at.fieldPath(), false)
}

func (d *Draft) mergeMap(given map[string]any, has bool, live map[string]any, at valuePlace) any {
	if len(live) > 0 && d.isAtomicMap(at) {
		return mergeAtomic(given, has, live, at)
	}
	merged := given
	if merged == nil {
		merged = map[string]any{}
	}
	for _, key := range slices.Sorted(maps.Keys(live)) {
		inner, there := given[key]
		if value := d.mergeValue(inner, there, live[key], at.fieldPlace(key)); value != nil {
			merged[key] = value
		}
	}
	if !has && len(merged) == 0 && (len(live) > 0 || !at.staysUnlessGiven()) {
		return nil
	}
	return merged
}

func (d *Draft) mergeList(given []any, has bool, live []any, at valuePlace) any {
	identity, known := at.itemIdentity()
	if !known {
		return mergeAtomic(given, has, live, at)
	}
	items := owned.NewListItems(given, identity)
	merged := slices.Clone(given)
	// What stays has its place after what it came after.
	before := []any(nil)
	after := make([][]any, len(given))
	place := &before
	for _, item := range live {
		element, complete := items.ElementFor(item)
		if !complete {
			continue
		}
		there := at.childPlace(element)
		switch like := items.IndexesLike(item); len(like) {
		case 0:
			if value := d.mergeItem(item, there, identity); value != nil {
				*place = append(*place, value)
			}
		case 1:
			merged[like[0]] = d.mergeValue(merged[like[0]], true, item, there)
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
	if !has && len(all) == 0 && (len(live) > 0 || !at.staysUnlessGiven()) {
		return nil
	}
	return all
}

// mergeItem returns what stays of an item that the manifest does not have: nothing, unless
// the item itself is somebody's whose it stays. What it is found by is in it.
func (d *Draft) mergeItem(item any, at valuePlace, identity owned.ItemIdentity) any {
	if at.kept != nil && at.kept.said {
		at.keep = at.kept.keep
	}
	if !at.staysUnlessGiven() {
		return nil
	}
	value := d.mergeValue(nil, false, item, at)
	if merged, is := value.(map[string]any); is {
		whole, _ := item.(map[string]any)
		for _, key := range identity {
			merged[key] = whole[key]
		}
	}
	return value
}

// mergeAtomic is merge for a map or list that has no parts.
func mergeAtomic(given any, has bool, live any, at valuePlace) any {
	switch {
	case has:
		return given
	case at.staysUnlessGiven():
		return runtime.DeepCopyJSONValue(live)
	default:
		return nil
	}
}
