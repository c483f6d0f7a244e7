// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import "sigs.k8s.io/controller-runtime/pkg/client"

// SingleHandler is the Handler of a single object: a function that is told the object,
// or nil if there is none, or why that is not known.
type SingleHandler[T client.Object] func(object T, err error)

// Replace implements Handler.
func (see SingleHandler[T]) Replace(objects []T, _ string) {
	var none T
	if len(objects) == 0 {
		see(none, nil)
		return
	}
	see(objects[0], nil)
}

// Update implements Handler.
func (see SingleHandler[T]) Update(object T) { see(object, nil) }

// Delete implements Handler.
func (see SingleHandler[T]) Delete(T) {
	var none T
	see(none, nil)
}

// Bookmark implements Handler.
func (SingleHandler[T]) Bookmark(string) {}

// Failed implements Handler.
func (see SingleHandler[T]) Failed(err error) {
	var none T
	see(none, err)
}
