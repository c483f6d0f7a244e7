// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conflict requeues when another writer changed an object between a
// controller's read and write, or the process has written it too often to write it now.
//
// That is how optimistic locking is meant to work and no failure, so nobody is
// told of it: no error is logged, and no backoff grows. The package does not
// avoid conflicts; a field that has one writer is written without a lock. Nor is an
// attempt a failure that was given up as the process ends. Of what is written too often
// a condition tells (package selfconflict).
package conflict

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/kube/selfconflict"
)

// Retry is when a controller looks again: its cache, which is behind the other
// write, has caught up by then.
const Retry = 50 * time.Millisecond

// RequeueConflicts returns the reconciler with conflicts, and writes that are held back, taken for
// what they are. An error that is something else besides stays an error.
func RequeueConflicts[T comparable](r reconcile.TypedReconciler[T]) reconcile.TypedReconciler[T] {
	return reconcile.TypedFunc[T](func(ctx context.Context, req T) (ctrl.Result, error) {
		result, err := r.Reconcile(ctx, req)
		after, quiet := RetryAfter(err)
		switch {
		case quiet:
			return ctrl.Result{RequeueAfter: after}, nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return ctrl.Result{}, nil // the next process does it
		default:
			return result, err
		}
	})
}

// RetryAfter tells when to look again, and whether all errors in a tree are conflicts or
// writes that are held back.
func RetryAfter(err error) (time.Duration, bool) {
	switch wrapped := err.(type) { //nolint:errorlint // the tree itself is walked
	case *selfconflict.HeldError:
		return max(wrapped.After, Retry), true
	case interface{ Unwrap() []error }:
		after := time.Duration(0)
		for _, each := range wrapped.Unwrap() {
			one, quiet := RetryAfter(each)
			if !quiet {
				return 0, false
			}
			after = max(after, one)
		}
		return after, true
	case interface{ Unwrap() error }:
		return RetryAfter(wrapped.Unwrap())
	}
	return Retry, err != nil && apierrors.IsConflict(err)
}
