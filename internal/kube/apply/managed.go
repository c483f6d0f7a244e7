// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// AppliedFor reports whether an entry of managedFields is of a manager that
// applied the object for the owner: such a manager owns the ownerReference.
func AppliedFor(entry *metav1.ManagedFieldsEntry, owner types.UID) bool {
	return owner != "" && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), string(owner)) && AppliedOwners(entry).Has(owner)
}

// AppliedOwners returns the UIDs of all owners for which the manager of an entry of managedFields applied the object: it is
// AppliedFor for who asks about many.
func AppliedOwners(entry *metav1.ManagedFieldsEntry) sets.Set[types.UID] {
	owners := sets.New[types.UID]()
	var fields struct {
		Metadata struct {
			Owners map[string]json.RawMessage `json:"f:ownerReferences"`
		} `json:"f:metadata"`
	}
	if entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil ||
		json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return owners
	}
	for item := range fields.Metadata.Owners {
		var key struct {
			UID types.UID `json:"uid"`
		}
		if raw, is := strings.CutPrefix(item, "k:"); is && json.Unmarshal([]byte(raw), &key) == nil && key.UID != "" {
			owners.Insert(key.UID)
		}
	}
	return owners
}

// ManagersOf returns the managers that applied an object for the owner.
func ManagersOf(object metav1.Object, owner types.UID) []string {
	var managers []string
	known := sets.New[string]()
	entries := object.GetManagedFields()
	for i := range entries {
		if AppliedFor(&entries[i], owner) && !known.Has(entries[i].Manager) {
			known.Insert(entries[i].Manager)
			managers = append(managers, entries[i].Manager)
		}
	}
	return managers
}

// IsApplier reports whether a manager applied an object for the owner.
func IsApplier(object metav1.Object, manager string, owner types.UID) bool {
	entries := object.GetManagedFields()
	for i := range entries {
		if entries[i].Manager == manager && AppliedFor(&entries[i], owner) {
			return true
		}
	}
	return false
}

// SetManagers returns a merge patch that makes the entries the managedFields of
// an object, provided that it is still as it was seen.
func SetManagers(seen metav1.Object, entries []metav1.ManagedFieldsEntry) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": seen.GetUID(), "resourceVersion": seen.GetResourceVersion(), "managedFields": entries,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the managers of %s/%s: %w", seen.GetNamespace(), seen.GetName(), err)
	}
	return body, nil
}
