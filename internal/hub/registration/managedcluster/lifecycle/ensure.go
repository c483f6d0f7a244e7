// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/lease"
)

// desired is an object as it should be, and room for the one that is there.
type desired struct {
	want, have client.Object
	// repair makes have what want is and reports whether it had to.
	repair func() bool
	// replace tells that have can only be mended by making it anew.
	replace func() bool
}

// ensureObject creates an object that the cache does not have, without asking the
// API server first, and mends one that was changed.
func (w *clusterWriter) ensureObject(ctx context.Context, d desired) error {
	key := client.ObjectKeyFromObject(d.want)
	err := w.client.Get(ctx, key, d.have)
	if apierrors.IsNotFound(err) {
		err = w.createObject(ctx, d.want)
		if !apierrors.IsAlreadyExists(err) {
			return wrapObjectError(err, "creating", desiredKind(d), key.String())
		}
		// The cache is behind, or the object lacks the label that it is cached by.
		err = w.live.Get(ctx, key, d.have)
	}
	if err != nil {
		return wrapObjectError(err, "reading", desiredKind(d), key.String())
	}
	if d.replace != nil && d.replace() {
		if err := w.removeObject(ctx, d.have); err != nil {
			return err
		}
		d.want.SetResourceVersion("")
		return wrapObjectError(w.createObject(ctx, d.want), "creating", desiredKind(d), key.String())
	}
	if !d.repair() {
		return nil
	}
	return wrapObjectError(w.client.Update(ctx, d.have, client.FieldOwner(fieldOwner)), "repairing", desiredKind(d), key.String())
}

// createObject creates an object. Leases may be created by one name only.
func (w *clusterWriter) createObject(ctx context.Context, object client.Object) error {
	if heartbeats, ok := object.(*coordinationv1.Lease); ok {
		return lease.CreateLease(ctx, w.client, heartbeats)
	}
	return w.client.Create(ctx, object, client.FieldOwner(fieldOwner))
}

func desiredClusterRole(want *rbacv1.ClusterRole) desired {
	have := &rbacv1.ClusterRole{}
	return desired{want: want, have: have, repair: func() bool {
		changed := repairLabels(have, want)
		if !equality.Semantic.DeepEqual(have.Rules, want.Rules) || have.AggregationRule != nil {
			have.Rules = want.Rules
			have.AggregationRule = nil
			changed = true
		}
		return changed
	}}
}

func desiredClusterRoleBinding(want *rbacv1.ClusterRoleBinding) desired {
	have := &rbacv1.ClusterRoleBinding{}
	return desired{
		want: want, have: have,
		repair: func() bool {
			changed := repairLabels(have, want)
			if !equality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
				have.Subjects = want.Subjects
				changed = true
			}
			return changed
		},
		replace: func() bool { return have.RoleRef != want.RoleRef },
	}
}

func desiredRoleBinding(want *rbacv1.RoleBinding) desired {
	have := &rbacv1.RoleBinding{}
	return desired{
		want: want, have: have,
		repair: func() bool {
			changed := repairLabels(have, want)
			if !equality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
				have.Subjects = want.Subjects
				changed = true
			}
			if len(have.Finalizers) == 0 && len(want.Finalizers) > 0 {
				have.Finalizers = want.Finalizers
				changed = true
			}
			return changed
		},
		// A binding that somebody deletes stays for its finalizer; a new one is
		// better than one that is on its way out.
		replace: func() bool { return have.RoleRef != want.RoleRef || !have.DeletionTimestamp.IsZero() },
	}
}

// desiredLease leaves a lease that is there to its agent.
func desiredLease(want *coordinationv1.Lease) desired {
	have := &coordinationv1.Lease{}
	return desired{want: want, have: have, repair: func() bool { return repairLabels(have, want) }}
}

// repairLabels gives an object the labels and annotations that it is to have, and tells
// whether it lacked some. What it has besides stays.
func repairLabels(have, want client.Object) bool {
	labels, changed := mergeMaps(have.GetLabels(), want.GetLabels())
	have.SetLabels(labels)
	annotations, annotated := mergeMaps(have.GetAnnotations(), want.GetAnnotations())
	have.SetAnnotations(annotations)
	return changed || annotated
}

// mergeMaps returns the one map with what the other has, and whether it lacked some
// of that.
func mergeMaps(have, want map[string]string) (map[string]string, bool) {
	changed := false
	for key, value := range want {
		if got, ok := have[key]; ok && got == value {
			continue
		}
		if have == nil {
			have = map[string]string{}
		}
		have[key] = value
		changed = true
	}
	return have, changed
}

func desiredKind(d desired) string { return fmt.Sprintf("%T", d.want) }

// runTogether runs the functions at the same time and returns the first error.
func runTogether(ctx context.Context, functions ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		group.Go(func() error { return f(ctx) })
	}
	return group.Wait()
}
