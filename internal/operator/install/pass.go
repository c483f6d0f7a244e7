// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// ReconcilePass is one walk over an object; operators embed it into what their phases
// leave for each other.
type ReconcilePass[O client.Object] struct {
	// Before is the object as the API server has it, Object as it is to be.
	Before, Object O
	// Records of everything that was applied.
	Records []render.AppliedRecord

	start, due time.Time
}

// Base returns the pass itself, for an PhaseEngine that sees it embedded.
func (p *ReconcilePass[O]) Base() *ReconcilePass[O] { return p }

// Apply applies objects on a target and records them, also those before a failure.
func (p *ReconcilePass[O]) Apply(ctx context.Context, to *Target, objects ...render.Object) error {
	records, err := to.Applier.Apply(ctx, objects...)
	p.Records = append(p.Records, records...)
	return err
}

// ApplyNamed is Apply for objects that are read by their names.
func (p *ReconcilePass[O]) ApplyNamed(ctx context.Context, to *Target, objects ...render.Object) error {
	records, err := to.Named.Apply(ctx, objects...)
	p.Records = append(p.Records, records...)
	return err
}

// DueBy asks for another walk at a time, unless it is asked for one before.
func (p *ReconcilePass[O]) DueBy(at time.Time) {
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
}

// DueIn asks for another walk after a duration, counted from the start of this one.
func (p *ReconcilePass[O]) DueIn(after time.Duration) { p.DueBy(p.start.Add(after)) }

// ChangeMeta changes finalizers and annotations of the object at once, and
// nothing else of it: what the walk has found out is written when it ends. The
// function reports whether it changed anything.
func (p *ReconcilePass[O]) ChangeMeta(ctx context.Context, c client.Client, change func(client.Object) bool) error {
	after := deepcopy.CopyObject(p.Before)
	if !change(after) {
		return nil
	}
	// Under the lock, so that we never remove what another has just added.
	patch := client.MergeFromWithOptions(p.Before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the finalizers and annotations of %s: %w", describeObject(c, after), err)
	}
	p.Object.SetFinalizers(after.GetFinalizers())
	p.Object.SetAnnotations(after.GetAnnotations())
	p.Object.SetLabels(after.GetLabels())
	p.Object.SetManagedFields(after.GetManagedFields())
	p.Object.SetResourceVersion(after.GetResourceVersion())
	p.Object.SetGeneration(after.GetGeneration())
	p.Before = after
	return nil
}

// nextPassAfter is when to walk again: at the latest after a time, where 0 is any; 0 is
// when something changes that is watched.
func (p *ReconcilePass[O]) nextPassAfter(after time.Duration) time.Duration {
	if after > 0 {
		p.DueIn(after)
	}
	if p.due.IsZero() {
		return 0
	}
	return max(p.due.Sub(p.start), dueMin)
}

func describeObject(c client.Client, object client.Object) string {
	kind := fmt.Sprintf("%T", object)
	if gvk, err := apiutil.GVKForObject(object, c.Scheme()); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %q", kind, object.GetName())
}
