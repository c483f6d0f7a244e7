// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// AdoptedFields is what a work has taken over of an object that was there before.
type AdoptedFields struct {
	// Managers are those whose fields it has taken over.
	Managers []string
	// Fields are those of these that the manifest does not have. They may be none.
	Fields []string
	// Gone says that the object has been applied since, and so has lost the fields.
	Gone bool
}

// AdoptionNote says so in the condition of the object; "" for nothing.
func (a *AdoptedFields) AdoptionNote() string {
	const before = workv1.ManifestMessageAdopted
	switch {
	case a == nil, a.Gone && len(a.Fields) == 0:
		return ""
	case a.Gone:
		return fmt.Sprintf(before+"Of the fields that %s had set, those that are not in the manifest were removed: %s.",
			strings.Join(a.Managers, ", "), strings.Join(a.Fields, ", "))
	case len(a.Fields) == 0:
		return fmt.Sprintf(before+"The work now owns the fields that %s had set.", strings.Join(a.Managers, ", "))
	default:
		return fmt.Sprintf(before+"The work now owns the fields that %s had set; those that are not in the manifest are removed, or reset to their defaults, once it can be applied: %s.",
			strings.Join(a.Managers, ", "), strings.Join(a.Fields, ", "))
	}
}
