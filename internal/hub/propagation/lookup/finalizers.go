// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// FinalizerRemoved is about an object that has lost a finalizer and is not being deleted:
// a client may have written its own list of finalizers over that of the hub. Neither the
// generation nor annotations tell.
func FinalizerRemoved() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			has := e.ObjectNew.GetFinalizers()
			return e.ObjectNew.GetDeletionTimestamp().IsZero() && slices.ContainsFunc(e.ObjectOld.GetFinalizers(), func(finalizer string) bool {
				return !slices.Contains(has, finalizer)
			})
		},
	}
}
