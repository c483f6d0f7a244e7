// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImmutableFields returns the fields that an error of Member.Apply says cannot change once the
// object exists, nil if it says something else, or something else as well.
func ImmutableFields(err error) []string {
	names := InvalidFields(err)
	if names == nil {
		return nil
	}
	var status apierrors.APIStatus
	errors.As(err, &status)
	for _, cause := range status.Status().Details.Causes {
		if !strings.Contains(cause.Message, "immutable") && !strings.Contains(cause.Message, "cannot change roleRef") {
			return nil
		}
	}
	return names
}

// namedMax is how many fields of a refusal are named.
const namedMax = 20

// InvalidFields returns the first fields for which validation refuses an object, each once; nil if the error is
// something else, or something else as well: the causes of policies name no fields.
func InvalidFields(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		return nil
	}
	var names []string
	causes := status.Status().Details.Causes
	for i := range causes {
		name := causes[i].Field
		switch name {
		case "":
			return nil
		case "<nil>": // of a rule about the whole object
			name = "the object as it was"
		}
		if len(names) < namedMax && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// IsMadeBy reports whether only managers that ours picks manage anything of an object but
// its metadata and its status: nobody else made it, or has put something into it.
func IsMadeBy(object metav1.Object, ours func(*metav1.ManagedFieldsEntry) bool) bool {
	entries := object.GetManagedFields()
	for i := range entries {
		if entries[i].Subresource != "" || ours(&entries[i]) {
			continue
		}
		var managed map[string]json.RawMessage
		if entries[i].FieldsV1 == nil || json.Unmarshal([]byte(entries[i].FieldsV1.GetRawString()), &managed) != nil {
			return false
		}
		for name := range managed {
			if name != "f:metadata" && name != "f:status" {
				return false
			}
		}
	}
	return len(entries) > 0
}
