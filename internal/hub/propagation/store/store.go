// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store writes bindings with the clusters that are chosen for them.
//
// Admission may refuse the clusters, as a quota does. The binding is written
// without them then and says why in its status, and they are tried again later.
package store

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// Bindings writes bindings.
type Bindings struct {
	Client  client.Client
	Decider *decide.Decider
	Fleet   *fleet.Fleet

	born *names
}

// New returns Bindings.
func New(c client.Client, decider *decide.Decider, clusters *fleet.Fleet) Bindings {
	return Bindings{Client: c, Decider: decider, Fleet: clusters, born: &names{all: map[types.NamespacedName]bool{}}}
}

// Unfinished tells whether a binding is being created, and its status is still to
// be written: whoever sees it in the cache would decide and write the same.
func (s Bindings) Unfinished(name types.NamespacedName) bool { return s.born.has(name) }

// refusedError says that admission has refused a binding even as it is to be without
// new clusters.
type refusedError struct{ error }

// Unwrap returns what the hub said.
func (e refusedError) Unwrap() error { return e.error }

// Refused tells whether an error is that admission has refused a binding itself.
func Refused(err error) bool {
	var refused refusedError
	return errors.As(err, &refused)
}

// Create creates a binding with the clusters that are chosen for it, and says so in
// its status. What the hub returns counts: a webhook may have suspended it. It
// tells whether the binding was created, even if something failed then.
func (s Bindings) Create(ctx context.Context, b lookup.Binding) (created bool, err error) {
	name := client.ObjectKeyFromObject(b)
	s.born.add(name)
	defer s.born.remove(name)
	bare := copied(b)
	outcome, decided, err := s.Decider.Decide(b)
	if err != nil {
		return false, err
	}
	err = s.Client.Create(ctx, b)
	if denied(err) && len(b.BindingSpec().Clusters) > 0 {
		if err = s.Client.Create(ctx, bare); err == nil {
			_, _, err := s.Change(ctx, bare, copied(bare), "")
			return true, err
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, apierrors.NewConflict(workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource(), b.GetName(), err)
	case err != nil:
		return false, fmt.Errorf("creating binding %q: %w", client.ObjectKeyFromObject(b), wrapped(err))
	case !decided || !binding.Ours(b):
		return true, nil
	}
	before := copied(b)
	s.unanswered(b)
	return true, s.report(ctx, before, b, outcome)
}

// unanswered makes the status of a new binding say that no cluster has the object
// yet: that stays right until the first agent answers, and is not written again.
func (s Bindings) unanswered(b lookup.Binding) {
	status := b.BindingStatus()
	status.AggregatedStatus = sum.Items(sum.Input{Spec: b.BindingSpec(), Fleet: s.Fleet.Snapshot()})
	conditions.Set(&status.Conditions, b.GetGeneration(), sum.FullyApplied(b.BindingSpec(), status.AggregatedStatus))
}

// Change makes a binding what it is to be, chooses its clusters if that is needed,
// and says in its status what was decided. It returns the binding as it is then,
// and whether anything was written. The version is that of the object, which the
// binding gets if it changes; "" is the one that it has.
func (s Bindings) Change(ctx context.Context, before, after lookup.Binding, version string) (is lookup.Binding, wrote bool, err error) {
	bare := copied(after)
	outcome, decided, err := s.Decider.Decide(after)
	if err != nil {
		return nil, false, err
	}
	if changed := !equality.Semantic.DeepEqual(before, after); !changed && !decided {
		return before, false, nil
	} else if changed {
		err = s.patch(ctx, before, after, version)
	}
	if denied(err) && !equality.Semantic.DeepEqual(bare.BindingSpec().Clusters, after.BindingSpec().Clusters) {
		return s.without(ctx, before, bare, version, err)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("changing binding %q: %w", client.ObjectKeyFromObject(before), wrapped(err))
	}
	if !decided {
		return after, true, nil
	}
	return after, true, s.report(ctx, copied(after), after, outcome)
}

// without writes a binding with the clusters that it has, as the hub refuses those
// that were chosen.
func (s Bindings) without(ctx context.Context, before, bare lookup.Binding, version string, refusal error) (lookup.Binding, bool, error) {
	if !equality.Semantic.DeepEqual(before, bare) {
		if err := s.patch(ctx, before, bare, version); client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("changing binding %q without new clusters: %w", client.ObjectKeyFromObject(before), wrapped(err))
		}
	}
	s.Decider.Refused(bare)
	return bare, true, s.report(ctx, copied(bare), bare, decide.Denied(refusal))
}

func (s Bindings) patch(ctx context.Context, before, after lookup.Binding, version string) error {
	if version != "" {
		after.BindingSpec().Resource.ResourceVersion = version
	}
	return s.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})) //nolint:wrapcheck // the caller does
}

// report writes to the status of a binding what was decided.
func (s Bindings) report(ctx context.Context, before, b lookup.Binding, outcome decide.Outcome) error {
	s.Decider.Report(b, outcome)
	if err := conditions.PatchStatus(ctx, s.Client, before, b); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return nil
}

// denied tells whether admission has refused an object, and not whether the hub
// could not be asked or the object has changed: webhooks say so with code 400 if
// they choose none.
func denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func wrapped(err error) error {
	if denied(err) {
		return refusedError{err}
	}
	return err
}

func copied(b lookup.Binding) lookup.Binding {
	return b.DeepCopyObject().(lookup.Binding) //nolint:forcetypeassert // it is one
}
