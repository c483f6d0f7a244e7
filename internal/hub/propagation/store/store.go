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
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// BindingStore writes bindings.
type BindingStore struct {
	Client  client.Client
	Decider *decide.Decider
	Fleet   *fleet.Fleet
	// Meter says when bindings are written. Client counts there what it writes.
	Meter *WriteMeter

	born *names
}

// NewBindingStore returns BindingStore.
func NewBindingStore(c client.Client, decider *decide.Decider, clusters *fleet.Fleet, meter *WriteMeter) BindingStore {
	return BindingStore{Client: c, Decider: decider, Fleet: clusters, Meter: meter, born: &names{all: map[types.NamespacedName]bool{}}}
}

// IsUnfinished reports whether a binding is being created, and its status is still to
// be written: whoever sees it in the cache would decide and write the same.
func (s BindingStore) IsUnfinished(name types.NamespacedName) bool { return s.born.has(name) }

// refusedError says that admission has refused a binding even as it is to be without
// new clusters.
type refusedError struct{ error }

// Unwrap returns what the hub said.
func (e refusedError) Unwrap() error { return e.error }

// IsRefused reports whether an error is that admission has refused a binding itself.
func IsRefused(err error) bool {
	var refused refusedError
	return errors.As(err, &refused)
}

// ScheduleAndCreate chooses the clusters of a new binding, creates it with them, and says so in
// its status. What the hub returns counts: a webhook may have suspended it. It
// reports whether the binding was created, even if something failed then.
func (s BindingStore) ScheduleAndCreate(ctx context.Context, b lookup.Binding) (created bool, err error) {
	name := client.ObjectKeyFromObject(b)
	s.born.add(name)
	defer s.born.remove(name)
	bare := deepcopy.CopyObject(b)
	outcome, decided, err := s.Decider.DecideBinding(b)
	if err != nil {
		return false, err
	}
	err = s.Client.Create(ctx, b)
	if isDenied(err) && len(b.BindingSpec().Clusters) > 0 {
		if err = s.Client.Create(ctx, bare); err == nil {
			_, _, err := s.ScheduleAndUpdate(ctx, bare, deepcopy.CopyObject(bare), "")
			return true, err
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, apierrors.NewConflict(workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource(), b.GetName(), err)
	case err != nil:
		return false, fmt.Errorf("creating binding %q: %w", client.ObjectKeyFromObject(b), wrapRefused(err))
	}
	if !decided || !binding.IsScheduledByUs(b) {
		return true, nil
	}
	before := deepcopy.CopyObject(b)
	s.setUnanswered(b)
	return true, s.reportDecision(ctx, before, b, outcome)
}

// setUnanswered makes the status of a new binding say that no cluster has the object
// yet: that stays right until the first agent answers, and is not written again.
func (s BindingStore) setUnanswered(b lookup.Binding) {
	status := b.BindingStatus()
	status.AggregatedStatus = sum.AggregateItems(sum.SummaryInput{Spec: b.BindingSpec(), Fleet: s.Fleet.Snapshot()})
	conditions.SetCondition(&status.Conditions, b.GetGeneration(), sum.FullyAppliedCondition(b.BindingSpec(), status.AggregatedStatus))
}

// ScheduleAndUpdate chooses the clusters of a binding if that is needed, makes the binding what
// it is to be, and says in its status what was decided. It returns the binding as it is then,
// and whether anything was written. The version is that of the object, which the
// binding gets if it changes; "" is the one that it has.
func (s BindingStore) ScheduleAndUpdate(ctx context.Context, before, after lookup.Binding, version string) (is lookup.Binding, wrote bool, err error) {
	bare := deepcopy.CopyObject(after)
	outcome, decided, err := s.Decider.DecideBinding(after)
	if err != nil {
		return nil, false, err
	}
	if changed := !equality.Semantic.DeepEqual(before, after); !changed && !decided {
		return before, false, nil
	} else if changed {
		err = s.patchBinding(ctx, before, after, version)
	}
	if isDenied(err) && !equality.Semantic.DeepEqual(bare.BindingSpec().Clusters, after.BindingSpec().Clusters) {
		return s.writeWithoutClusters(ctx, before, bare, version, err)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("changing binding %q: %w", client.ObjectKeyFromObject(before), wrapRefused(err))
	}
	if !decided {
		return after, true, nil
	}
	return after, true, s.reportDecision(ctx, deepcopy.CopyObject(after), after, outcome)
}

// writeWithoutClusters writes a binding with the clusters that it has, as the hub refuses those
// that were chosen.
func (s BindingStore) writeWithoutClusters(ctx context.Context, before, bare lookup.Binding, version string, refusal error) (lookup.Binding, bool, error) {
	if !equality.Semantic.DeepEqual(before, bare) {
		if err := s.patchBinding(ctx, before, bare, version); client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("changing binding %q without new clusters: %w", client.ObjectKeyFromObject(before), wrapRefused(err))
		}
	}
	s.Decider.RecordRefusal(bare)
	return bare, true, s.reportDecision(ctx, deepcopy.CopyObject(bare), bare, decide.DeniedDecision(refusal))
}

func (s BindingStore) patchBinding(ctx context.Context, before, after lookup.Binding, version string) error {
	if version != "" {
		after.BindingSpec().Resource.ResourceVersion = version
	}
	return s.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})) //nolint:wrapcheck // the caller does
}

// reportDecision writes to the status of a binding what was decided.
func (s BindingStore) reportDecision(ctx context.Context, before, b lookup.Binding, outcome decide.BindingDecision) error {
	s.Decider.ReportDecision(b, outcome)
	if err := conditions.PatchStatus(ctx, s.Client, before, b); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return nil
}

// isDenied reports whether admission has refused an object, and not whether the hub
// could not be asked or the object has changed: webhooks say so with code 400 if
// they choose none.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func wrapRefused(err error) error {
	if isDenied(err) {
		return refusedError{err}
	}
	return err
}
