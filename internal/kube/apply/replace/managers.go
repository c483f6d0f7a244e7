// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

// SettleManagers returns the managedFields of an object with what a manager owns in one entry, as if
// it had applied the manifest, and whether that makes a difference. Replacing an object, or
// making it, leaves an entry of another operation, which the server does not look at when
// the manager applies the object again or lets go of it.
func SettleManagers(
	managers []metav1.ManagedFieldsEntry, manager string, manifest map[string]any,
) (settled []metav1.ManagedFieldsEntry, changed bool, err error) {
	var fields []*fieldpath.Set
	at := -1
	for i := range managers {
		entry := &managers[i]
		if entry.Manager != manager || entry.Subresource != "" {
			settled = append(settled, *entry)
			continue
		}
		set, err := owned.DecodeManagedFields(entry)
		if err != nil {
			return nil, false, err
		}
		fields = append(fields, set)
		if entry.Operation == metav1.ManagedFieldsOperationUpdate { // which is of the last write
			at = i
			changed = true
		}
	}
	if !changed {
		return managers, false, nil
	}
	entry := managers[at]
	entry.Operation = metav1.ManagedFieldsOperationApply
	if err := owned.EncodeManagedFields(&entry, owned.FieldsWithin(owned.UnionSets(fields...), manifest)); err != nil {
		return nil, false, err
	}
	return append(settled, entry), true, nil
}

// TakeOver returns the managedFields of an object with fields of some entries given to the
// manager, as if that had applied them, and these fields: when the manager applies a manifest
// next, the server removes what that does not have. What to take of an entry is asked with
// what it owns. Entries of another version of the API stay as they are.
func TakeOver(
	managers []metav1.ManagedFieldsEntry, take func(*metav1.ManagedFieldsEntry, *fieldpath.Set) *fieldpath.Set, manager, version string,
) (after []metav1.ManagedFieldsEntry, taken *fieldpath.Set, err error) {
	heir := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version}
	var owns, takes []*fieldpath.Set
	for i := range managers {
		entry := managers[i]
		if entry.APIVersion != version || entry.Subresource != "" {
			after = append(after, entry)
			continue
		}
		set, err := owned.DecodeManagedFields(&entry)
		if err != nil {
			return nil, nil, err
		}
		if entry.Manager == manager && entry.Operation == heir.Operation {
			owns = append(owns, set)
			heir.Time = entry.Time
			continue
		}
		if some := take(&entry, set); !some.Empty() {
			takes = append(takes, some)
			heir.Time = entry.Time
			set = set.Difference(some)
			if err := owned.EncodeManagedFields(&entry, set); err != nil {
				return nil, nil, err
			}
		}
		if !set.Empty() {
			after = append(after, entry)
		}
	}
	taken = owned.UnionSets(takes...)
	if taken.Empty() {
		return managers, taken, nil
	}
	if err := owned.EncodeManagedFields(&heir, owned.UnionSets(append(owns, taken)...)); err != nil {
		return nil, nil, err
	}
	return append(after, heir), taken, nil
}

// OverriddenPaths returns the paths of what an entry of managedFields owns of the live object, and
// is not so in the draft; at most as many as most says.
func (d *Draft) OverriddenPaths(entry *metav1.ManagedFieldsEntry, most int) ([]string, error) {
	set, err := owned.DecodeManagedFields(entry)
	if err != nil {
		return nil, err
	}
	return DifferingPaths(set, d.live, d.object, most), nil
}

// DifferingPaths returns the paths of the fields of a set that one object has and another has
// not, or otherwise; at most as many as most says. Of what is not there at all it is one path.
func DifferingPaths(set *fieldpath.Set, before, after map[string]any, most int) (paths []string) {
	reportDifferences(set, before, after, nil, func(path fieldpath.Path) bool {
		paths = append(paths, path.String())
		return len(paths) < most
	})
	return paths
}

// reportDifferences calls report with the path of each field of a set that is not the same in two
// objects, until that returns false.
func reportDifferences(set *fieldpath.Set, before, after any, path fieldpath.Path, report func(fieldpath.Path) bool) (more bool) {
	more = true
	inBefore := owned.ValuesInside(set, before)
	inAfter := owned.ValuesInside(set, after)
	set.Members.Iterate(func(element fieldpath.PathElement) {
		if _, has := set.Children.Get(element); has || !more {
			return
		}
		if was := inBefore(element); len(was) > 0 && element.Key == nil && !reflect.DeepEqual(was, inAfter(element)) {
			more = report(append(slices.Clip(path), element))
		}
	})
	set.Children.Iterate(func(element fieldpath.PathElement) {
		was := inBefore(element)
		is := inAfter(element)
		switch {
		case !more || len(was) == 0:
		case len(is) == 0:
			more = report(append(slices.Clip(path), element))
		default:
			more = reportDifferences(set.WithPrefix(element), was[0], is[0], append(slices.Clip(path), element), report)
		}
	})
	return more
}
