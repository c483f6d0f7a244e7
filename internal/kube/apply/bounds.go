// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is taken of an object of a member. One agent may work for many members, and each of
// them answers what it likes: what is compared with each other has to be few, and what is gone
// through not much more than an API server can store, which is 1.5 MiB.
const (
	// sharersMax is how many owners, and how many entries of managedFields, an object may have:
	// each work that has a part in it is one of both.
	sharersMax = 4_000
	// marksMax is how many labels, annotations and finalizers it may have together, and
	// fieldsBytesMax how long its managedFields may be.
	marksMax       = 20_000
	fieldsBytesMax = 1 << 20
	// valuesMax is how many values there may be in an object that is read as a whole, and
	// depthMax how deep they may be nested.
	valuesMax = 100_000
	depthMax  = 500
)

// checkMetadata returns an error if an object is said to have more owners, managers or marks
// than an API server can store.
func checkMetadata(object metav1.Object) error {
	if owners := len(object.GetOwnerReferences()); owners > sharersMax {
		return fmt.Errorf("it has %d owners, and may have %d", owners, sharersMax)
	}
	if marks := len(object.GetLabels()) + len(object.GetAnnotations()) + len(object.GetFinalizers()); marks > marksMax {
		return fmt.Errorf("it has %d labels, annotations and finalizers, and may have %d", marks, marksMax)
	}
	entries := object.GetManagedFields()
	bytes := 0
	if len(entries) > sharersMax {
		return fmt.Errorf("it has %d entries in metadata.managedFields, and may have %d", len(entries), sharersMax)
	}
	for i := range entries {
		if entries[i].FieldsV1 != nil {
			bytes += len(entries[i].FieldsV1.GetRawBytes())
		}
	}
	if bytes > fieldsBytesMax {
		return fmt.Errorf("it has %d bytes of fields in metadata.managedFields, and may have %d", bytes, fieldsBytesMax)
	}
	return nil
}

// checkValues returns an error if there are more values in an object, or deeper ones, than are
// worked with.
func checkValues(content map[string]any) error {
	left := valuesMax
	if !countValues(content, &left, 0) {
		return fmt.Errorf("it has more than %d values, or some that are nested more than %d times", valuesMax, depthMax)
	}
	return nil
}

// countValues takes the values in one from those that are left, and returns whether there were
// so many.
func countValues(value any, left *int, depth int) bool {
	if *left--; *left < 0 || depth > depthMax {
		return false
	}
	switch container := value.(type) {
	case map[string]any:
		for _, inner := range container {
			if !countValues(inner, left, depth+1) {
				return false
			}
		}
	case []any:
		for _, inner := range container {
			if !countValues(inner, left, depth+1) {
				return false
			}
		}
	}
	return true
}
