// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "slices"

// JSON is any JSON value. The zero value is none.
type JSON struct {
	// Raw is the value as JSON.
	Raw []byte `json:"-"`
}

// MarshalJSON implements json.Marshaler. None becomes null.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

// UnmarshalJSON implements json.Unmarshaler. null is none.
func (j *JSON) UnmarshalJSON(data []byte) error {
	j.Raw = nil
	if string(data) != "null" {
		j.Raw = slices.Clone(data)
	}
	return nil
}

// IsZero reports whether there is no value.
func (j JSON) IsZero() bool { return len(j.Raw) == 0 }
