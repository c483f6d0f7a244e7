// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package advice keeps what to do about a refusal apart from its text, where the text is
// that of OCM: clients compare the whole of it. The advice goes into the warnings of the
// response, which kubectl prints as well.
package advice

import "errors"

// Error is a refusal with a text that clients compare.
type Error struct {
	// Text is all that Error returns.
	Text string
	// Advice says where the fault is and what to do about it.
	Advice string
}

func (e *Error) Error() string { return e.Text }

// Warnings returns the advice on an error, or on the first of those that it wraps; nil for
// none.
func Warnings(err error) []string {
	var advised *Error
	if errors.As(err, &advised) {
		return []string{advised.Advice}
	}
	return nil
}
