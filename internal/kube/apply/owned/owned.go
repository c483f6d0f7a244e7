// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package owned reads the managedFields of objects: which fields a manager owns, and where
// these are in an object.
//
// Non-goal: it knows no schema but for what others declare. What tells the items of a list apart
// it knows only from managers that own some of them.
package owned

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// depthMax is how deep fields may be nested: some times as deep as those of any kind. Whoever
// goes through them keeps the path to each.
const depthMax = 100

// Declared reports whether the API treats the map at a path, or the list, as one value. It is
// nil if nobody knows.
type Declared func(path fieldpath.Path, list bool) (one, known bool)

// IsAtomic reports whether a map or list is one value that a manager owns, and of which no manager
// owns a part. An empty one looks the same, whatever the API treats it as. So it is one if
// nothing else is known: to apply a part of one value would take away the rest.
func (d Declared) IsAtomic(path fieldpath.Path, list bool) bool {
	if d == nil {
		return true
	}
	one, known := d(path, list)
	return one || !known
}

// DecodeManagedFields returns the fields in an entry of managedFields, none if it has none.
func DecodeManagedFields(entry *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	if entry.FieldsV1 == nil {
		return &fieldpath.Set{}, nil
	}
	var fields map[string]any
	err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields)
	if err != nil {
		return nil, fmt.Errorf("reading the fields that manager %q owns: %w", entry.Manager, err)
	}
	set, err := decodeFieldSet(fields, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the fields that manager %q owns: %w", entry.Manager, err)
	}
	return set, nil
}

// decodeFieldSet returns the set of fields that are as managedFields have them. It puts them in order
// first: a set moves what it has for each field that comes before its last one. A server
// chooses the order, and a million fields in the reverse one would take an hour.
func decodeFieldSet(fields map[string]any, depth int) (*fieldpath.Set, error) {
	if depth > depthMax {
		return nil, fmt.Errorf("they are nested more than %d times", depthMax)
	}
	type field struct {
		element fieldpath.PathElement
		inside  any
	}
	ordered := make([]field, 0, len(fields))
	for key, inside := range fields {
		if key == "." { // which is about the field around
			continue
		}
		element, err := fieldpath.DeserializePathElement(key)
		if errors.Is(err, fieldpath.ErrUnknownPathElementType) { // of a later version
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%.100q: %w", key, err)
		}
		ordered = append(ordered, field{element, inside})
	}
	slices.SortFunc(ordered, func(a, b field) int { return a.element.Compare(b.element) })
	set := &fieldpath.Set{}
	for _, f := range ordered {
		inner, is := f.inside.(map[string]any)
		if !is {
			return nil, fmt.Errorf("what is in %.100q is not a set of fields", f.element)
		}
		below, err := decodeFieldSet(inner, depth+1)
		if err != nil {
			return nil, err
		}
		if _, itself := inner["."]; itself || below.Empty() {
			set.Members.Insert(f.element)
		}
		if !below.Empty() {
			*set.Children.Descend(f.element) = *below
		}
	}
	return set, nil
}

// UnionSets returns the fields that are in any of the sets. It joins them in pairs: to add one after the other to
// all would copy all of them for each, and an object may have thousands of managers.
func UnionSets(sets ...*fieldpath.Set) *fieldpath.Set {
	switch half := len(sets) / 2; len(sets) {
	case 0:
		return fieldpath.NewSet()
	case 1:
		return sets[0]
	default:
		return UnionSets(sets[:half]...).Union(UnionSets(sets[half:]...))
	}
}

// EncodeManagedFields makes the fields those of an entry of managedFields.
func EncodeManagedFields(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) error {
	raw, err := set.ToJSON()
	if err != nil {
		return fmt.Errorf("encoding the fields that manager %q owns: %w", entry.Manager, err)
	}
	entry.FieldsType, entry.FieldsV1 = "FieldsV1", metav1.NewFieldsV1(string(raw))
	return nil
}

// FieldsWithin returns the fields of a set that the object has, whatever their value.
func FieldsWithin(set *fieldpath.Set, object any) *fieldpath.Set {
	kept := fieldpath.NewSet()
	collectFieldsWithin(set, object, nil, kept)
	return kept
}

func collectFieldsWithin(set *fieldpath.Set, object any, path fieldpath.Path, kept *fieldpath.Set) {
	inside := ValuesInside(set, object)
	set.Members.Iterate(func(element fieldpath.PathElement) {
		if len(inside(element)) > 0 {
			kept.Insert(append(path.Copy(), element))
		}
	})
	set.Children.Iterate(func(element fieldpath.PathElement) {
		for _, inner := range inside(element) {
			collectFieldsWithin(set.WithPrefix(element), inner, append(path.Copy(), element), kept)
		}
	})
}

// ValuesInside returns a function that finds what in a map or a list an element of the set stands
// for. Several items are found where a list has duplicates.
func ValuesInside(set *fieldpath.Set, object any) func(fieldpath.PathElement) []any {
	switch container := object.(type) {
	case map[string]any:
		return func(element fieldpath.PathElement) []any {
			if element.FieldName == nil {
				return nil
			}
			inner, has := container[*element.FieldName]
			if !has {
				return nil
			}
			return []any{inner}
		}
	case []any:
		identity, known := IdentityIn(set)
		if !known {
			return func(fieldpath.PathElement) []any { return nil }
		}
		items := NewListItems(container, identity)
		return func(element fieldpath.PathElement) (found []any) {
			for _, i := range items.IndexesLike(itemOf(element)) {
				found = append(found, container[i])
			}
			return found
		}
	default:
		return func(fieldpath.PathElement) []any { return nil }
	}
}

// itemOf returns an item of a list with no more than what the element tells of it.
func itemOf(element fieldpath.PathElement) any {
	switch {
	case element.Value != nil:
		return (*element.Value).Unstructured()
	case element.Key != nil:
		item := make(map[string]any, len(*element.Key))
		for _, key := range *element.Key {
			item[key.Name] = key.Value.Unstructured()
		}
		return item
	default:
		return nil
	}
}

// elementOf returns the element that stands for an item with the identity.
func elementOf(item any, identity ItemIdentity) (element fieldpath.PathElement, complete bool) {
	if identity.byValue() {
		whole := value.NewValueInterface(item)
		return fieldpath.PathElement{Value: &whole}, true
	}
	entries, is := item.(map[string]any)
	if !is {
		return element, false
	}
	fields := make(value.FieldList, 0, len(identity))
	for _, key := range identity {
		inner := valueOf(entries, key)
		if inner == nil {
			return element, false
		}
		fields = append(fields, value.Field{Name: key, Value: value.NewValueInterface(inner)})
	}
	fields.Sort()
	return fieldpath.PathElement{Key: &fields}, true
}
