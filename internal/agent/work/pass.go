// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/deliver"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/observe"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/removal"
	"github.com/capstan-io/capstan/internal/agent/work/report"
	"github.com/capstan-io/capstan/internal/agent/work/runtime"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/server/tracing"
)

const (
	// conflictRetry is how soon a pass comes again that met a newer state of what
	// it wrote.
	conflictRetry = 100 * time.Millisecond
	// refusedRetry is how often an object is tried again that the member refused:
	// what has to be mended is there, and nothing may tell.
	refusedRetry = 30 * time.Second
)

// errDeleted ends a pass whose work was deleted meanwhile.
var errDeleted = errors.New("the work was deleted")

// workPass is one walk over a work.
type workPass struct {
	cluster *engagedCluster
	memory  *passMemory
	name    string
	// work is as the hub has it, which others use, too; nil if it is gone.
	work *workv1.ManifestWork
	// status is a copy of the work's to change.
	status workv1.ManifestWorkStatus
	// record is the AppliedManifestWork of the work.
	record *ledger.AppliedRecord
	// keeper is nil if a record was asked for by name.
	keeper *ledger.RecordKeeper

	plan     *plan.Plan
	delivery *deliver.Delivery
	// removed is what came of what the work does not want any more.
	removed removal.RemoveResult
	// again is when to come back if nothing happens; zero is never.
	again    time.Duration
	measured passTimes
	// span is that of the delivery, if it is traced.
	span *tracing.Span
}

// passPhase is a step of a pass over a work that is to be applied.
type passPhase func(*workPass, context.Context) error

// Reconcile makes one work real on its member, or removes it, and reports.
func (p *ManifestWorkPart) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	s := p.clusterOf(request.Cluster)
	if s == nil { // comes again with the connection
		return reconcile.Result{}, nil
	}
	release := s.slots.AcquireSlot(request)
	if release == nil { // comes again when another is done
		return reconcile.Result{}, nil
	}
	defer s.requeuePostponed(request.Work)
	defer release()
	ctx, cancel := s.bindContext(ctx)
	defer cancel()

	this, err := s.openPass(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	this.measured = this.memory.times.beginPass()
	walking, span := traceDelivery(ctx, this)
	err = this.reconcileWork(walking)
	span.EndSpan(err)
	this.memory.times.giveBack(this.measured)
	switch {
	case ctx.Err() != nil, errors.Is(err, errDeleted):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		log.FromContext(ctx).V(1).Info("Something changed in between; looking again", "problem", err.Error())
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: this.again}, nil
}

// openPass reads what a pass is about.
func (s *engagedCluster) openPass(ctx context.Context, request Request) (*workPass, error) {
	this := &workPass{cluster: s, memory: s.memoryOf(request), name: request.Work}
	var err error
	if request.Work == "" {
		this.name = request.Applied
		this.record, err = s.ledger.OpenNamed(ctx, &this.memory.record, request.Applied)
		return this, err
	}
	if this.work, err = s.works.ReadWork(ctx, request.Work, &this.memory.work); err != nil {
		return nil, err
	}
	if this.work != nil {
		this.status = *this.work.Status.DeepCopy()
	}
	if this.record, err = s.ledger.OpenRecord(ctx, &this.memory.record, request.Work); err != nil {
		return nil, err
	}
	this.keeper, err = s.ledger.OpenKeeper(ctx, &this.memory.record, request.Work)
	return this, err
}

// reconcileWork does what there is to do.
func (p *workPass) reconcileWork(ctx context.Context) error {
	switch {
	case p.work == nil:
		return p.withoutWork(ctx)
	case p.record.Claims().IsClaimed():
		return p.record.Claims().DenyClaim(ctx)
	case p.record.Claims().IsForeign():
		return p.claimRecord(ctx)
	case p.work.DeletionTimestamp != nil:
		return p.finalizeWork(ctx)
	case !p.cluster.interpreted.interpretersReady(p.work):
		return nil
	case plan.IsSuspended(p.work):
		return p.suspendWork(ctx)
	case p.record.IsDeleted():
		return p.renewRecord(ctx)
	case !runtime.HasFinalizer(p.work):
		return p.cluster.works.AddFinalizer(ctx, p.work) // which starts the next pass
	default:
		return p.deliverWork(ctx)
	}
}

// deliverWork makes the work real, phase by phase.
func (p *workPass) deliverWork(ctx context.Context) error {
	for _, phase := range []passPhase{
		(*workPass).preparePlan, (*workPass).ensureRecord, applyTraced, (*workPass).pruneObjects, (*workPass).emptyKeeper, (*workPass).observeObjects, concludeTraced,
	} {
		if err := phase(p, ctx); err != nil {
			return err
		}
	}
	p.memory.plan = p.plan.CompactPlan(p.cluster.options.Clock.Now())
	return nil
}

// preparePlan reads the manifests and finds the resources of their kinds.
func (p *workPass) preparePlan(ctx context.Context) error {
	var isNew bool
	if p.plan, isNew = plan.ForManifestWork(p.work, p.memory.plan, plan.HealthOptions{Health: p.cluster.options.Health}); isNew {
		p.cluster.denials.ForgetWork(p.name) // it is tried at once
	}
	p.memory.plan = p.plan
	p.memory.leavingSince = time.Time{}
	p.delivery = &deliver.Delivery{
		Deliverer: p.cluster.deliverer, Work: p.work, Plan: p.plan, Record: p.record, Budget: p.cluster.times.NewBudget(plan.WorkOwner(p.work)),
	}
	if p.plan.Executor != nil {
		p.delivery.Session = p.cluster.guard.NewSession(*p.plan.Executor)
	}
	p.cluster.interpreted.useKinds(p.name, p.plan.CustomizableKinds())
	p.plan.ResetOutcomes()
	return p.plan.ResolveItems(ctx, p.plan.Items, p.work, p.cluster.finder)
}

// ensureRecord makes sure that what is going to be applied is found again.
func (p *workPass) ensureRecord(ctx context.Context) error {
	return p.record.EnsureRecord(ctx, p.plan.OwnedTypes(), p.work)
}

// applyWaves brings the objects to the member, class by class. What became of each
// is in its outcome; only a record that cannot be written is an error.
func (p *workPass) applyWaves(ctx context.Context) error {
	for i, wave := range p.plan.Waves {
		if i > 0 {
			// An earlier wave may have brought the definitions of this one's kinds.
			if err := p.plan.ResolveItems(ctx, wave, p.work, p.cluster.finder); err != nil {
				return err
			}
			if err := p.ensureRecord(ctx); err != nil {
				return err
			}
		}
		if err := p.applyWave(ctx, wave); err != nil {
			return err
		}
		if p.memory.deleting.Load() {
			return errDeleted
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	p.measured.applied = p.cluster.options.Clock.Now()
	p.scheduleRetry() //nolint:contextcheck // what it waits for is watched for longer than the pass
	return nil
}

// applyWave brings the items of a wave to the member. If the work is deleted
// meanwhile, requests that are under way are cut off, as they may hang: what
// they bring all the same is owned by the record, and found or collected.
func (p *workPass) applyWave(ctx context.Context, wave []*plan.ManifestItem) error {
	ctx, done := p.memory.interruptibleContext(ctx)
	defer done()
	return p.delivery.DeliverWave(ctx, wave, p.memory.deleting.Load)
}

// scheduleRetry decides when to come back for what did not succeed.
func (p *workPass) scheduleRetry() {
	passing := false
	denied := false
	for _, it := range p.plan.Items {
		p.requeueAfter(it.Outcome.Again)
		trouble := it.ObjectProblem().Trouble
		switch {
		case it.Desired.Refused != nil: // until the work changes
		case it.Outcome.Denied: // in its own time
			denied = true
		case trouble == apply.TroubleNone:
		case trouble == apply.TroublePassing, trouble == apply.TroubleRaced:
			passing = true
		case trouble == apply.TroubleConflict:
			p.cluster.waiters.AddWaiter(p.name, it.Desired.Object)
			p.requeueAfter(refusedRetry)
			if p.delivery.ChangedSince(it) {
				p.requeueAfter(conflictRetry) // it changed before we waited for that
			}
		default:
			p.requeueAfter(refusedRetry)
		}
	}
	missing := p.plan.MissingDependencies()
	if p.cluster.arrivals.setUnmetNeeds(p.name, unmetNeeds{groups: missing.Groups, namespaces: missing.Namespaces}) {
		p.memory.retries.ResetFailures()
	}
	if denied {
		p.requeueAfter(p.cluster.denials.CountDenial(p.name))
	} else {
		p.cluster.denials.ForgetWork(p.name)
	}
	if !passing {
		p.memory.retries.ClearRetries()
		return
	}
	p.requeueAfter(p.memory.retries.NextRetry(p.cluster.options.Clock.Now(), missing.Own))
}

// pruneObjects lets go of the objects that the work does not have any more.
func (p *workPass) pruneObjects(ctx context.Context) (err error) {
	p.removed, err = p.cluster.remover.RemoveObjects(ctx, removal.RemoveJob{Record: p.record, Fates: p.plan.ObjectFates()})
	p.requeueAfter(p.removed.Again)
	return err
}

// observeObjects reads the objects that the work asks something about.
func (p *workPass) observeObjects(ctx context.Context) error {
	again, err := p.cluster.observer.ObserveWork(ctx, observe.ObservedWork{
		Name: p.name, Plan: p.plan, Session: p.delivery.Session, Budget: p.delivery.Budget, Memory: &p.memory.observed,
	})
	p.requeueAfter(again)
	return err
}

// concludeDelivery lists the objects in the record before the hub hears of them, so
// that whoever reads Applied=True finds them there. If the list cannot be
// written, the hub hears all the same.
func (p *workPass) concludeDelivery(ctx context.Context) error {
	err := p.writeAppliedResources(ctx)
	if apierrors.IsConflict(err) {
		return err // and soon again
	}
	return errors.Join(err, p.reportStatus(ctx))
}

// reportStatus writes what became of the manifests, with one request.
func (p *workPass) reportStatus(ctx context.Context) error {
	if p.memory.retries.QuietPeriod(p.cluster.options.Clock.Now(), p.plan.MissingDependencies().Own) > 0 {
		return nil
	}
	for {
		now := p.cluster.options.Clock.Now()
		p.resumeDispatching()
		p.requeueAfter(report.ComposeStatus(report.PassOutcomes{
			Work: p.work, Plan: p.plan, Leftovers: p.removed.Leftovers, List: p.appliedResources().ShortageNote(), Now: now,
		}, &p.status))
		err := p.writeStatus(ctx)
		if err == nil || !report.ReduceAfterRefusal(err, p.plan, &p.status, now) {
			return err
		}
		p.status = *p.work.Status.DeepCopy()
	}
}

// writeStatus tells the hub the status. If much was written about the work, what is known when
// its turn comes is told then.
func (p *workPass) writeStatus(ctx context.Context) error {
	reports := p.cluster.reports
	memory := reports.MemoryOf(p.name) // not before: a name that only the member knows would stay
	if wait := reports.WaitBeforeReport(memory, p.work); wait > 0 && !equality.Semantic.DeepEqual(&p.work.Status, &p.status) {
		p.cluster.meter.delayed.Inc()
		p.requeueAfter(wait)
		return nil
	}
	written, err := p.cluster.works.WriteStatus(ctx, p.work, &p.status, &p.memory.work)
	if written {
		reports.CountReport(memory, p.work, &p.status)
	}
	if err == nil {
		before := stateOf(p.work, &p.work.Status)
		after := stateOf(p.work, &p.status)
		p.memory.state.Store(uint32(after))
		p.cluster.meter.observeLatencies(&p.memory.times, &p.measured, statusChange{before: before, after: after, written: written})
	}
	return err
}

// writeAppliedResources writes which objects there are into the record.
func (p *workPass) writeAppliedResources(ctx context.Context) error {
	again, err := p.appliedResources().Write(ctx, len(p.removed.Leftovers) > 0)
	p.requeueAfter(again)
	return err
}

// appliedResources is the list of what the record has.
func (p *workPass) appliedResources() *ledger.AppliedList {
	list := p.record.AppliedList(p.plan)
	list.Gone = p.removed.Gone
	applied := meta.FindStatusCondition(p.work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	list.Heard = applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == p.work.Generation
	return list
}

// requeueAfter makes the pass come again after the time, or earlier.
func (p *workPass) requeueAfter(after time.Duration) {
	if after > 0 && (p.again == 0 || after < p.again) {
		p.again = after
	}
}
