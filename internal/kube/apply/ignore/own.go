// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

// DisownFields returns the managed fields of an object without those at the paths of
// its manifest in the entries of our managers, and whether that makes a
// difference. What nobody owns stays when a manifest is applied that lacks it;
// what we owned would be deleted.
//
// The error is ErrExpression if a path leads into a list or map that the API
// treats as one value, of which nothing can be left to others. Declared is asked
// where the managed fields do not say that it is not one.
func DisownFields(
	entries []metav1.ManagedFieldsEntry, ours func(*metav1.ManagedFieldsEntry) bool, manifest map[string]any, paths []Path, declared owned.Declared,
) (rest []metav1.ManagedFieldsEntry, changed bool, err error) {
	rest = make([]metav1.ManagedFieldsEntry, 0, len(entries))
	sets := make([]*fieldpath.Set, len(entries))
	for i := range entries {
		sets[i] = &fieldpath.Set{}
		if entries[i].Subresource != "" {
			continue
		}
		if sets[i], err = owned.DecodeManagedFields(&entries[i]); err != nil {
			return nil, false, err
		}
	}
	found := fieldFinder{}
	for _, path := range paths {
		if whole := found.atomicAncestor(sets, manifest, path, declared); whole != nil {
			return nil, false, fmt.Errorf("%w: %s is in %s, which the API treats as one value: name that", ErrExpression, path, whole)
		}
	}
	for i := range entries {
		entry := entries[i]
		if !ours(&entry) {
			rest = append(rest, entry)
			continue
		}
		given := found.fieldsAtPaths(sets[i], manifest, paths)
		if given.Empty() {
			rest = append(rest, entry)
			continue
		}
		changed = true
		left := withoutEmptied(sets[i].RecursiveDifference(given), given)
		if left.Empty() {
			continue
		}
		if err := owned.EncodeManagedFields(&entry, left); err != nil {
			return nil, false, err
		}
		rest = append(rest, entry)
	}
	return rest, changed, nil
}

// withoutEmptied returns what is left of a set without the fields of which all that was
// inside is given up: a field that is owned without its inside looks like one value. Items
// of lists stay, which their keys tell apart from that.
func withoutEmptied(left, given *fieldpath.Set) *fieldpath.Set {
	around := map[int][]fieldpath.Path{} // what had something inside that is given up, by its length
	longest := 0
	given.Iterate(func(path fieldpath.Path) {
		length := len(path) - 1
		around[length] = append(around[length], path[:length].Copy())
		longest = max(longest, length)
	})
	for length := longest; length > 0; length-- { // what is inside first
		emptied := fieldpath.NewSet()
		for _, path := range around[length] {
			if path[length-1].FieldName == nil || emptied.Has(path) || !subsetInside(left, path).Empty() {
				continue
			}
			emptied.Insert(path)
			around[length-1] = append(around[length-1], path[:length-1])
		}
		left = left.Difference(emptied)
	}
	return left
}

// subsetInside returns what a set has inside of a field.
func subsetInside(set *fieldpath.Set, path fieldpath.Path) *fieldpath.Set {
	for _, element := range path {
		set = set.WithPrefix(element)
	}
	return set
}

// fieldFinder finds fields in sets. It keeps the elements of each list that it has looked into, so
// that many paths into a long list take no more than a look at each of its items.
type fieldFinder map[*fieldpath.Set]*owned.ItemElements

// fieldsAtPaths returns what of the set is at the paths of the manifest.
func (f fieldFinder) fieldsAtPaths(set *fieldpath.Set, manifest map[string]any, paths []Path) *fieldpath.Set {
	var fields []fieldpath.Path
	for _, path := range paths {
		fields = append(fields, f.locateFields(set, manifest, path)...)
	}
	slices.SortFunc(fields, fieldpath.Path.Compare) // a set is fast to make in its own order
	all := fieldpath.NewSet()
	for _, field := range fields {
		all.Insert(field)
	}
	return all
}

// locateFields returns what of the set is at the path of the manifest.
func (f fieldFinder) locateFields(set *fieldpath.Set, value any, path Path) []fieldpath.Path {
	type position struct {
		set  *fieldpath.Set
		path fieldpath.Path
	}
	at := []position{{set: set}}
	for depth, step := range path {
		inner := childValue(value, step)
		var next []position
		for _, p := range at {
			for _, element := range f.elementsOf(p.set, step, inner) {
				if depth < len(path)-1 && !p.set.Members.Has(element) && p.set.WithPrefix(element).Empty() {
					continue
				}
				next = append(next, position{
					set: p.set.WithPrefix(element), path: append(slices.Clip(p.path), element),
				})
			}
		}
		value = inner
		at = next
	}
	found := make([]fieldpath.Path, 0, len(at))
	for _, p := range at {
		found = append(found, p.path)
	}
	return found
}

// atomicAncestor returns the first list or map above the end of the path that is one value to the
// API: somebody owns it as a whole, and nobody in parts. So it is, too, with a map or list
// that somebody applied when it was empty, such as when all of it was left to others.
func (f fieldFinder) atomicAncestor(sets []*fieldpath.Set, manifest any, path Path, declared owned.Declared) Path {
	value := manifest
	at := slices.Clone(sets)
	for depth, step := range path[:len(path)-1] {
		inner := childValue(value, step)
		whole := false
		parts := false
		var next []*fieldpath.Set
		for _, set := range at {
			for _, element := range f.elementsOf(set, step, inner) {
				below := set.WithPrefix(element)
				whole = whole || below.Empty() && set.Members.Has(element)
				parts = parts || !below.Empty()
				next = append(next, below)
			}
		}
		if whole && !parts && isAtomicValue(path[:depth+1], path[depth+1], declared) {
			return path[:depth+1]
		}
		value = inner
		at = next
	}
	return nil
}

// isAtomicValue reports whether what somebody owns as a whole is one value, with what the path goes on.
// Labels and annotations have parts in any API.
func isAtomicValue(path Path, next any, declared owned.Declared) bool {
	last := len(path) - 1
	if last > 0 && path[last-1] == "metadata" && (path[last] == "labels" || path[last] == "annotations") {
		return false
	}
	fields := make(fieldpath.Path, len(path))
	for i, step := range path {
		switch step := step.(type) {
		case string:
			fields[i].FieldName = &step
		case int:
			fields[i].Index = &step
		}
	}
	_, list := next.(int)
	return declared.IsAtomic(fields, list)
}

// childValue returns what a step of a path leads to, nil if there is nothing.
func childValue(value, step any) any {
	switch container := value.(type) {
	case map[string]any:
		if key, ok := step.(string); ok {
			return container[key]
		}
	case []any:
		if index, ok := step.(int); ok && index >= 0 && index < len(container) {
			return container[index]
		}
	}
	return nil
}

// elementsOf returns the elements of a set that a step to the value stands
// for. The items of a list are found by their keys, or by their value.
func (f fieldFinder) elementsOf(set *fieldpath.Set, step, value any) []fieldpath.PathElement {
	if name, ok := step.(string); ok {
		element := fieldpath.PathElement{FieldName: &name}
		_, inner := set.Children.Get(element)
		if !inner && !set.Members.Has(element) {
			return nil
		}
		return []fieldpath.PathElement{element}
	}
	if set.Empty() {
		return nil
	}
	elements, known := f[set]
	if !known {
		elements = owned.ElementsOf(set)
		f[set] = elements
	}
	return elements.ElementsFor(value)
}
