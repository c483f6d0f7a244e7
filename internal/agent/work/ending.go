// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/removal"
	"github.com/capstan-io/capstan/internal/agent/work/report"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// deletionReportAfter is how long a deletion may take before the work says
// what it waits for: most are over by then, and cost no write.
const deletionReportAfter = time.Second

// finishedCheck is when to look whether a work that was let go of is gone: a hub
// that was restored from a snapshot has it again, and its cache may not tell.
const finishedCheck = 10 * time.Second

// withoutWork takes care of a record whose work the hub does not have.
func (p *workPass) withoutWork(ctx context.Context) error {
	p.memory.state.Store(uint32(stateNone))
	p.memory.times.spec.takeStart()
	switch {
	case p.record.Exists():
		if work, ok := p.cluster.ledger.SubjectWorkOf(p.record.Object()); ok && p.keeper == nil {
			p.cluster.queue.Add(p.cluster.workRequest(work)) // which takes care of both
			return nil
		}
		return p.evictRecord(ctx, p.record)
	case p.keeper != nil && p.keeper.Exists():
		return p.evictRecord(ctx, p.keeper.Record())
	}
	if !p.record.IsCached() {
		p.cluster.forgetWork(p.name) //nolint:contextcheck // it ends watches of the connection
	}
	return nil
}

// evictRecord deletes a record that no agent takes care of, after the grace period,
// unless the hub forgot its work. What the work said is to stay does.
func (p *workPass) evictRecord(ctx context.Context, record *ledger.AppliedRecord) error {
	grace := p.cluster.options.EvictionGracePeriod
	clock := p.cluster.options.Clock
	if !record.OwnedByAgent() {
		return nil
	}
	if !record.IsDeleted() {
		if grace >= EvictionNever {
			return nil
		}
		if kept, err := p.cluster.forgotten.KeepsRecord(ctx, record.Object()); err != nil || kept {
			return err
		}
		start, err := record.BeginEviction(ctx)
		if err != nil {
			return err
		}
		if left := start.Add(grace).Sub(clock.Now()); left > 0 {
			p.requeueAfter(left)
			return nil
		}
	}
	option, err := record.DeleteOption()
	if err != nil {
		return err
	}
	result, _, err := p.cluster.remover.TakeDown(ctx, removal.RemoveJob{Record: record, Fates: plan.DeletionFates(option)})
	p.requeueAfter(result.Again)
	return err
}

// claimRecord asks for the record of another agent. If that denies it the work is
// not applied; nothing of it is on the member, so it can be deleted.
func (p *workPass) claimRecord(ctx context.Context) error {
	again, denied, err := p.record.Claims().MakeClaim(ctx)
	p.requeueAfter(again)
	switch {
	case err != nil || !denied:
		return err
	case p.work.DeletionTimestamp != nil:
		return p.cluster.works.FinishWork(ctx, p.work, &p.memory.work)
	}
	conditions.SetCondition(&p.status.Conditions, p.work.Generation, report.ClaimDeniedCondition(p.record.Object(), p.name))
	return p.writeStatus(ctx)
}

// finalizeWork removes from the member what the work brought there, then the
// finalizer that keeps the work.
func (p *workPass) finalizeWork(ctx context.Context) error {
	if finished, err := p.cluster.works.IsFinished(ctx, p.work, &p.memory.work); err != nil || finished {
		p.requeueAfter(finishedCheck)
		return err
	}
	if p.memory.leavingSince.IsZero() {
		p.memory.leavingSince = p.cluster.options.Clock.Now()
	}
	if !p.record.Exists() {
		if err := p.record.FindUncached(ctx); err != nil {
			return err
		}
	}
	for _, record := range []*ledger.AppliedRecord{p.keeper.Record(), p.record} {
		if !record.Exists() {
			continue
		}
		result, done, err := p.cluster.remover.TakeDown(ctx, removal.RemoveJob{
			Record: record, Fates: plan.DeletionFates(p.work.Spec.DeleteOption), Work: p.work,
		})
		p.requeueAfter(result.Again)
		switch {
		case apierrors.IsConflict(err):
			return err
		case err != nil || !done:
			return errors.Join(err, p.reportDeletion(ctx, report.DeletingCondition(result.Leftovers, record.UnlistedTypes(), err)))
		}
	}
	p.requeueAfter(finishedCheck)
	return p.cluster.works.FinishWork(ctx, p.work, &p.memory.work)
}

// renewRecord moves the objects of a record that someone deleted to the keeper, and
// lets the record go. The next pass makes a new one.
func (p *workPass) renewRecord(ctx context.Context) error {
	if err := p.record.AdoptObjects(ctx); err != nil {
		return err
	}
	if err := p.keeper.EnsureFor(ctx, p.record); err != nil {
		return err
	}
	result, done, err := p.cluster.remover.MoveToKeeper(ctx, p.record, p.keeper.Record())
	p.requeueAfter(result.Again)
	switch {
	case err != nil:
		return err
	case !done && report.HasStuckLeftover(result.Leftovers):
		conditions.SetCondition(&p.status.Conditions, p.work.Generation, report.NotMovedCondition(p.record.Object().Name, result.Leftovers))
		return p.writeStatus(ctx)
	case done:
		p.memory.plan = nil
		p.requeueAfter(conflictRetry)
	}
	return nil
}

// emptyKeeper ends what the keeper has of the objects that the record owns
// again, removes what the work does not want, and in the end the keeper.
func (p *workPass) emptyKeeper(ctx context.Context) error {
	if !p.keeper.Exists() {
		return nil
	}
	planned := p.plan.ObjectFates()
	applied := map[apply.ObjectRef]bool{}
	for _, it := range p.plan.Items {
		if it.IsResolved() && it.ObjectProblem().Trouble == apply.TroubleNone && it.History.Past.Mark.UID != "" {
			applied[it.Desired.Object] = true
		}
	}
	result, _, err := p.cluster.remover.TakeDown(ctx, removal.RemoveJob{Record: p.keeper.Record(), Fates: func(object apply.ObjectRef) plan.Fate {
		if end := planned(object); end != plan.FateKeep {
			return end
		}
		live, known := p.cluster.inventory.Get(object)
		switch {
		case live != nil && slices.Contains(live.OwnerUIDs(), p.record.UID()), !known && applied[object]:
			return plan.FateOrphan // by the keeper: the record has it
		case !known:
			return plan.FateUnknown
		}
		return plan.FateKeep
	}})
	p.removed.Leftovers = append(p.removed.Leftovers, result.Leftovers...)
	p.requeueAfter(result.Again)
	return err
}

// reportDeletion says what the deletion waits for, once it takes long.
func (p *workPass) reportDeletion(ctx context.Context, deleting metav1.Condition) error {
	took := p.cluster.options.Clock.Since(p.memory.leavingSince)
	if took < deletionReportAfter {
		p.requeueAfter(deletionReportAfter - took)
		return nil
	}
	conditions.SetCondition(&p.status.Conditions, p.work.Generation, deleting)
	return p.writeStatus(ctx)
}
