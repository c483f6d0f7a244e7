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
	// repair makes have what want is and tells whether it had to.
	repair func() bool
	// replace tells that have can only be mended by making it anew.
	replace func() bool
}

// ensure creates an object that the cache does not have, without asking the
// API server first, and mends one that was changed.
func (w *writer) ensure(ctx context.Context, d desired) error {
	key := client.ObjectKeyFromObject(d.want)
	err := w.client.Get(ctx, key, d.have)
	if apierrors.IsNotFound(err) {
		err = w.create(ctx, d.want)
		if !apierrors.IsAlreadyExists(err) {
			return wrap(err, "creating", kindOf(d), key.String())
		}
		// The cache is behind, or the object lacks the label that it is cached by.
		err = w.live.Get(ctx, key, d.have)
	}
	if err != nil {
		return wrap(err, "reading", kindOf(d), key.String())
	}
	if d.replace != nil && d.replace() {
		if err := w.remove(ctx, d.have); err != nil {
			return err
		}
		d.want.SetResourceVersion("")
		return wrap(w.create(ctx, d.want), "creating", kindOf(d), key.String())
	}
	if !d.repair() {
		return nil
	}
	return wrap(w.client.Update(ctx, d.have, client.FieldOwner(fieldOwner)), "repairing", kindOf(d), key.String())
}

// create creates an object. Leases may be created by one name only.
func (w *writer) create(ctx context.Context, object client.Object) error {
	if heartbeats, ok := object.(*coordinationv1.Lease); ok {
		return lease.Create(ctx, w.client, heartbeats)
	}
	return w.client.Create(ctx, object, client.FieldOwner(fieldOwner))
}

func clusterRole(want *rbacv1.ClusterRole) desired {
	have := &rbacv1.ClusterRole{}
	return desired{want: want, have: have, repair: func() bool {
		changed := relabel(have, want)
		if !equality.Semantic.DeepEqual(have.Rules, want.Rules) || have.AggregationRule != nil {
			have.Rules = want.Rules
			have.AggregationRule = nil
			changed = true
		}
		return changed
	}}
}

func clusterRoleBinding(want *rbacv1.ClusterRoleBinding) desired {
	have := &rbacv1.ClusterRoleBinding{}
	return desired{
		want: want, have: have,
		repair: func() bool {
			changed := relabel(have, want)
			if !equality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
				have.Subjects = want.Subjects
				changed = true
			}
			return changed
		},
		replace: func() bool { return have.RoleRef != want.RoleRef },
	}
}

func roleBinding(want *rbacv1.RoleBinding) desired {
	have := &rbacv1.RoleBinding{}
	return desired{
		want: want, have: have,
		repair: func() bool {
			changed := relabel(have, want)
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

// heartbeats leaves a lease that is there to its agent.
func heartbeats(want *coordinationv1.Lease) desired {
	have := &coordinationv1.Lease{}
	return desired{want: want, have: have, repair: func() bool { return relabel(have, want) }}
}

// relabel gives an object the labels and annotations that it is to have, and tells
// whether it lacked some. What it has besides stays.
func relabel(have, want client.Object) bool {
	labels, changed := merged(have.GetLabels(), want.GetLabels())
	have.SetLabels(labels)
	annotations, annotated := merged(have.GetAnnotations(), want.GetAnnotations())
	have.SetAnnotations(annotations)
	return changed || annotated
}

// merged returns the one map with what the other has, and whether it lacked some
// of that.
func merged(have, want map[string]string) (map[string]string, bool) {
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

func kindOf(d desired) string { return fmt.Sprintf("%T", d.want) }

// together runs the functions at the same time and returns the first error.
func together(ctx context.Context, functions ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		group.Go(func() error { return f(ctx) })
	}
	return group.Wait()
}
