// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conflict requeues when another writer changed an object between a
// controller's read and write.
//
// That is how optimistic locking is meant to work and no failure, so nobody is
// told of it: no error is logged, and no backoff grows. The package does not
// avoid conflicts; a field that has one writer is written without a lock. Nor is an
// attempt a failure that was given up as the process ends.
package conflict

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Retry is when a controller looks again: its cache, which is behind the other
// write, has caught up by then.
const Retry = 50 * time.Millisecond

// Quiet returns the reconciler with conflicts taken for what they are. An error
// that is something else besides stays an error.
func Quiet[T comparable](r reconcile.TypedReconciler[T]) reconcile.TypedReconciler[T] {
	return reconcile.TypedFunc[T](func(ctx context.Context, req T) (ctrl.Result, error) {
		result, err := r.Reconcile(ctx, req)
		switch {
		case only(err):
			return ctrl.Result{RequeueAfter: Retry}, nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return ctrl.Result{}, nil // the next process does it
		default:
			return result, err
		}
	})
}

// only tells whether all errors in a tree are conflicts.
func only(err error) bool {
	switch wrapped := err.(type) { //nolint:errorlint // the tree itself is walked
	case interface{ Unwrap() []error }:
		for _, each := range wrapped.Unwrap() {
			if !only(each) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return only(wrapped.Unwrap())
	}
	return err != nil && apierrors.IsConflict(err)
}
