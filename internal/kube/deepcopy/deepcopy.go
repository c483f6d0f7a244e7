// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deepcopy copies objects that are known by an interface.
//
// Whoever knows the type itself calls its DeepCopy.
package deepcopy

import "k8s.io/apimachinery/pkg/runtime"

// CopyObject returns a deep copy of an object, as what the caller knows it by:
// DeepCopyObject says only that it is an object. The object must not be nil.
func CopyObject[T runtime.Object](object T) T {
	return object.DeepCopyObject().(T) // the copy has the type of the object
}
