// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package taskgroup

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// messageMax is how many bytes are told of what was panicked with: others may have written it.
	messageMax = 1000
	// stackMax is how many are told of a stack, which begins with where the panic was.
	stackMax = 16 << 10
)

// panicError is a panic of a function of a group.
type panicError struct{ message, stack string }

// Error implements error. It has the stack, for who logs nothing else.
func (e *panicError) Error() string { return "panic: " + e.message + "\n" + e.stack }

// DescribePanic returns what was recovered in the two fields of a log, each of which is bounded by
// itself: what was panicked with, and the stack. That is the one of the function of a group whose panic Wait has
// brought, and else the one that is given.
func DescribePanic(recovered any, stack []byte) (message, at string) {
	var brought *panicError
	if err, is := recovered.(error); is && errors.As(err, &brought) {
		return brought.message, brought.stack
	}
	return cutText(fmt.Sprint(recovered), messageMax), cutText(string(stack), stackMax)
}

// cutText returns a text of which no more than so many bytes are left, without a part of a character.
func cutText(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}
