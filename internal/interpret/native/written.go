// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

// NeedsManagedFields reports whether the managedFields of an object of a kind decide what
// Prune takes out of it: there are fields that users may write, and that the API server
// allocates if they do not. Those that it allocates have no manager.
func NeedsManagedFields(kind schema.GroupKind) bool { return kind == schema.GroupKind{Kind: "Service"} }

// writtenFields are the fields of an object that somebody has written.
type writtenFields struct {
	// owned are those with a manager.
	owned *fieldpath.Set
	// applied is what kubectl applied last: it sends no field whose value is there
	// already, and so owns none that the API server allocated before.
	applied map[string]any
}

// writtenOf returns the fields of an object that somebody has written; false if the object
// does not say it. One from a file has no managedFields, nor has one that is pruned already.
func writtenOf(object map[string]any) (writtenFields, bool) {
	w := writtenFields{owned: fieldpath.NewSet()}
	entries := (&unstructured.Unstructured{Object: object}).GetManagedFields()
	for i := range entries {
		if set, err := owned.DecodeManagedFields(&entries[i]); err == nil && entries[i].Subresource == "" {
			w.owned = w.owned.Union(set)
		}
	}
	if w.owned.Empty() {
		return writtenFields{}, false
	}
	applied := fields.String(object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	if json.Unmarshal([]byte(applied), &w.applied) != nil {
		w.applied = nil // nobody but kubectl reads it
	}
	return w, true
}

// hasField reports whether somebody has written the field at a path of names.
func (w writtenFields) hasField(path ...string) bool {
	parts := make([]any, len(path))
	for i := range path {
		parts[i] = path[i]
	}
	return w.owned.Has(fieldpath.MakePathOrDie(parts...)) || fields.Get(w.applied, path...) != nil
}
