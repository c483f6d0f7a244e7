// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package advice keeps what to do about a refusal apart from its text, where the text is
// that of OCM: clients compare the whole of it. The advice goes into the warnings of the
// response, which kubectl prints as well.
package advice

import "errors"

// AdvisedError is a refusal with a text that clients compare.
type AdvisedError struct {
	// Text is all that AdvisedError returns.
	Text string
	// Advice says where the fault is and what to do about it.
	Advice string
}

func (e *AdvisedError) Error() string { return e.Text }

// WarningsFor returns the advice on an error, or on the first of those that it wraps; nil for
// none.
func WarningsFor(err error) []string {
	var advised *AdvisedError
	if errors.As(err, &advised) {
		return []string{advised.Advice}
	}
	return nil
}
