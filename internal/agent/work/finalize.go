// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/conditions"
)

// deletionReportAfter is how long a deletion may take before the work says
// what it waits for: most are over by then, and cost no write.
const deletionReportAfter = time.Second

// addFinalizer adds the finalizer that admission adds as a rule.
func (p *pass) addFinalizer(ctx context.Context) error {
	return p.changeFinalizers(ctx, func(finalizers []string) []string {
		return append(finalizers, workv1.FinalizerManifestWorkCleanup)
	})
}

// changeFinalizers writes the work whole, as hubs let agents update works but
// not patch them. A conflict is retried with what the hub has now.
func (p *pass) changeFinalizers(ctx context.Context, change func([]string) []string) error {
	after := p.stored.DeepCopy()
	after.Finalizers = change(after.Finalizers)
	err := p.connection.Hub.GetClient().Update(ctx, after)
	if apierrors.IsConflict(err) {
		if err = p.connection.Hub.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(p.stored), after); err == nil {
			after.Finalizers = change(slices.DeleteFunc(after.Finalizers,
				func(f string) bool { return f == workv1.FinalizerManifestWorkCleanup }))
			err = p.connection.Hub.GetClient().Update(ctx, after)
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the finalizers of manifestwork %q: %w", p.name, err)
	}
	return nil
}

// finalize removes from the member what the work brought there, then the
// finalizer that keeps the work.
func (p *pass) finalize(ctx context.Context) error {
	if !slices.Contains(p.stored.Finalizers, workv1.FinalizerManifestWorkCleanup) || p.state.finished == p.stored.UID {
		return nil // others keep it, or the cache does not know yet
	}
	if p.state.leavingSince.IsZero() {
		p.state.leavingSince = p.options.Clock.Now()
	}
	if p.record == nil {
		if err := p.readLive(ctx); err != nil {
			return err
		}
	}
	for _, each := range []*pass{p.ofKeeper(), p} {
		if each.record == nil {
			continue
		}
		done, err := each.takeDown(ctx, p.fateAtEnd)
		p.leftovers, p.trouble = each.leftovers, err
		p.comeBack(each.again)
		switch {
		case apierrors.IsConflict(err):
			return err
		case err != nil || !done:
			return errors.Join(err, p.reportDeletion(ctx, each))
		}
	}
	return p.finish(ctx)
}

// readLive looks for a record that was made by a request whose answer we did
// not hear, and that the cache does not have yet.
func (p *pass) readLive(ctx context.Context) error {
	record := &workv1.AppliedManifestWork{}
	err := p.connection.Spoke.GetAPIReader().Get(ctx, client.ObjectKey{Name: p.recordName(p.name)}, record)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading appliedmanifestwork %q: %w", p.recordName(p.name), err)
	}
	if err == nil && record.UID != p.state.dropped && p.owns(record) {
		p.setRecord(record)
	}
	return nil
}

// finish lets go of a work that has nothing on the member any more.
func (p *pass) finish(ctx context.Context) error {
	if !slices.Contains(p.stored.Finalizers, workv1.FinalizerManifestWorkCleanup) || p.state.finished == p.stored.UID {
		return nil // others keep it, or the cache does not know yet
	}
	err := p.changeFinalizers(ctx, func(finalizers []string) []string {
		return slices.DeleteFunc(finalizers, func(f string) bool { return f == workv1.FinalizerManifestWorkCleanup })
	})
	if err == nil {
		p.state.finished = p.stored.UID
	}
	return err
}

// fateAtEnd says what happens to an object when the work is deleted.
func (p *pass) fateAtEnd(object apply.Object) fate {
	option := p.stored.Spec.DeleteOption
	if option == nil {
		return fateDelete
	}
	switch option.PropagationPolicy {
	case workv1.DeletePropagationPolicyOrphan:
		return fateOrphan
	case workv1.DeletePropagationPolicySelectivelyOrphan:
		if option.SelectivelyOrphans != nil && slices.ContainsFunc(option.SelectivelyOrphans.OrphaningRules,
			func(rule workv1.OrphaningRule) bool { return matches(workv1.ResourceIdentifier(rule), object) }) {
			return fateOrphan
		}
	case workv1.DeletePropagationPolicyForeground:
	}
	return fateDelete
}

// takeDown lets go of all objects of the record, then of the record itself.
// It tells whether nothing is left; if not, the pass comes again when it is.
func (p *pass) takeDown(ctx context.Context, fateOf func(apply.Object) fate) (done bool, err error) {
	if _, ours := p.record.Annotations[workv1.AnnotationResourceTypes]; !ours {
		if err := p.adopt(ctx); err != nil {
			return false, err
		}
	}
	p.setLeaving(p.record.UID, true)
	p.watch(typesOf(p.record))
	var group errgroup.Group
	if p.record.DeletionTimestamp == nil && !p.wasRequested(apply.Object{}) {
		group.Go(func() error { return p.deleteRecord(ctx) })
	}
	group.Go(func() error { return p.removeAll(ctx, fateOf) })
	if err := group.Wait(); err != nil {
		return false, err
	}
	switch {
	case p.pending():
		p.comeBack(requestAgain) // the inventory tells earlier
		return false, nil
	case len(p.leftovers) > 0 || p.held || p.inventory.Owns(p.record.UID) > 0:
		return false, nil
	}
	return true, p.dropRecord(ctx)
}

// deleteRecord marks the record as deleted; its finalizer keeps it.
func (p *pass) deleteRecord(ctx context.Context) error {
	err := p.connection.Spoke.GetClient().Delete(ctx, p.record, client.Preconditions{UID: &p.record.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting appliedmanifestwork %q: %w", p.record.Name, err)
	}
	p.setRequested(apply.Object{})
	return nil
}

// dropRecord removes the finalizer of the record, which then vanishes.
func (p *pass) dropRecord(ctx context.Context) error {
	after := p.record.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers,
		func(f string) bool { return f == workv1.FinalizerAppliedManifestWorkCleanup })
	err := p.connection.Spoke.GetClient().Patch(ctx, after, client.MergeFrom(p.record))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of appliedmanifestwork %q: %w", p.record.Name, err)
	}
	p.watch(nil)
	p.mu.Lock()
	delete(p.state.requested, apply.Object{}) // the next record is another one
	p.mu.Unlock()
	p.state.dropped = p.record.UID
	p.state.record.Store(nil)
	p.setLeaving(p.record.UID, false)
	return nil
}

// evict deletes a record that no agent takes care of, after the grace period.
func (p *pass) evict(ctx context.Context) error {
	if p.record == nil {
		keeper := p.ofKeeper()
		err := keeper.evict(ctx)
		p.comeBack(keeper.again)
		return err
	}
	if !p.owns(p.record) {
		return nil // another agent's
	}
	if p.record.DeletionTimestamp == nil {
		if p.options.EvictionGracePeriod >= EvictionNever {
			return nil
		}
		start := p.record.Status.EvictionStartTime
		if start == nil {
			after := p.record.DeepCopy()
			after.Status.EvictionStartTime = &metav1.Time{Time: p.options.Clock.Now()}
			if err := conditions.PatchStatus(ctx, p.connection.Spoke.GetClient(), p.record, after); err != nil {
				return fmt.Errorf("noting that appliedmanifestwork %q has no work: %w", p.record.Name, err)
			}
			p.setRecord(after)
			start = after.Status.EvictionStartTime
		}
		if left := start.Add(p.options.EvictionGracePeriod).Sub(p.options.Clock.Now()); left > 0 {
			p.comeBack(left)
			return nil
		}
	}
	_, err := p.takeDown(ctx, func(apply.Object) fate { return fateDelete })
	return err
}
