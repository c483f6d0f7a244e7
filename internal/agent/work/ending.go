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
func (p *pass) withoutWork(ctx context.Context) error {
	p.memory.state.Store(uint32(stateNone))
	p.memory.times.spec.end()
	switch {
	case p.record.Exists():
		if work, ok := p.cluster.ledger.SubjectOf(p.record.Object()); ok && p.keeper == nil {
			p.cluster.queue.Add(p.cluster.request(work)) // which takes care of both
			return nil
		}
		return p.evict(ctx, p.record)
	case p.keeper != nil && p.keeper.Exists():
		return p.evict(ctx, p.keeper.Record())
	}
	if !p.record.Cached() {
		p.cluster.forget(p.name) //nolint:contextcheck // it ends watches of the connection
	}
	return nil
}

// evict deletes a record that no agent takes care of, after the grace period,
// unless the hub forgot its work. What the work said is to stay does.
func (p *pass) evict(ctx context.Context, record *ledger.Record) error {
	grace := p.cluster.options.EvictionGracePeriod
	clock := p.cluster.options.Clock
	if !record.Ours() {
		return nil
	}
	if !record.Deleted() {
		if grace >= EvictionNever {
			return nil
		}
		if kept, err := p.cluster.forgotten.Keeps(ctx, record.Object()); err != nil || kept {
			return err
		}
		start, err := record.BeginEviction(ctx)
		if err != nil {
			return err
		}
		if left := start.Add(grace).Sub(clock.Now()); left > 0 {
			p.comeBack(left)
			return nil
		}
	}
	option, err := record.DeleteOption()
	if err != nil {
		return err
	}
	result, _, err := p.cluster.remover.TakeDown(ctx, removal.Job{Record: record, Fates: plan.AtDeletion(option)})
	p.comeBack(result.Again)
	return err
}

// claim asks for the record of another agent. If that denies it the work is
// not applied; nothing of it is on the member, so it can be deleted.
func (p *pass) claim(ctx context.Context) error {
	again, denied, err := p.record.Claims().Make(ctx)
	p.comeBack(again)
	switch {
	case err != nil || !denied:
		return err
	case p.work.DeletionTimestamp != nil:
		return p.cluster.works.Finish(ctx, p.work, &p.memory.work)
	}
	conditions.Set(&p.status.Conditions, p.work.Generation, report.ClaimDenied(p.record.Object(), p.name))
	return p.writeStatus(ctx)
}

// finalize removes from the member what the work brought there, then the
// finalizer that keeps the work.
func (p *pass) finalize(ctx context.Context) error {
	if finished, err := p.cluster.works.Finished(ctx, p.work, &p.memory.work); err != nil || finished {
		p.comeBack(finishedCheck)
		return err
	}
	if p.memory.leavingSince.IsZero() {
		p.memory.leavingSince = p.cluster.options.Clock.Now()
	}
	if !p.record.Exists() {
		if err := p.record.Find(ctx); err != nil {
			return err
		}
	}
	for _, record := range []*ledger.Record{p.keeper.Record(), p.record} {
		if !record.Exists() {
			continue
		}
		result, done, err := p.cluster.remover.TakeDown(ctx, removal.Job{
			Record: record, Fates: plan.AtDeletion(p.work.Spec.DeleteOption), Work: p.work,
		})
		p.comeBack(result.Again)
		switch {
		case apierrors.IsConflict(err):
			return err
		case err != nil || !done:
			return errors.Join(err, p.reportDeletion(ctx, report.Deleting(result.Leftovers, record.Unlisted(), err)))
		}
	}
	p.comeBack(finishedCheck)
	return p.cluster.works.Finish(ctx, p.work, &p.memory.work)
}

// renew moves the objects of a record that someone deleted to the keeper, and
// lets the record go. The next pass makes a new one.
func (p *pass) renew(ctx context.Context) error {
	if err := p.record.Adopt(ctx); err != nil {
		return err
	}
	if err := p.keeper.Expect(ctx, p.record); err != nil {
		return err
	}
	result, done, err := p.cluster.remover.Empty(ctx, p.record, p.keeper.Record())
	p.comeBack(result.Again)
	switch {
	case err != nil:
		return err
	case !done && report.Stuck(result.Leftovers):
		conditions.Set(&p.status.Conditions, p.work.Generation, report.NotMoved(p.record.Object().Name, result.Leftovers))
		return p.writeStatus(ctx)
	case done:
		p.memory.plan = nil
		p.comeBack(conflictRetry)
	}
	return nil
}

// emptyKeeper ends what the keeper has of the objects that the record owns
// again, removes what the work does not want, and in the end the keeper.
func (p *pass) emptyKeeper(ctx context.Context) error {
	if !p.keeper.Exists() {
		return nil
	}
	planned := p.plan.Fates()
	applied := map[apply.Object]bool{}
	for _, it := range p.plan.Items {
		if it.Resolved && it.Outcome.Problem.Trouble == apply.TroubleNone && it.Past.Mark.UID != "" {
			applied[it.Object] = true
		}
	}
	result, _, err := p.cluster.remover.TakeDown(ctx, removal.Job{Record: p.keeper.Record(), Fates: func(object apply.Object) plan.Fate {
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
	p.comeBack(result.Again)
	return err
}

// reportDeletion says what the deletion waits for, once it takes long.
func (p *pass) reportDeletion(ctx context.Context, deleting metav1.Condition) error {
	took := p.cluster.options.Clock.Since(p.memory.leavingSince)
	if took < deletionReportAfter {
		p.comeBack(deletionReportAfter - took)
		return nil
	}
	conditions.Set(&p.status.Conditions, p.work.Generation, deleting)
	return p.writeStatus(ctx)
}
