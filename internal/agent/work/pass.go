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
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
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

// pass is one walk over a work.
type pass struct {
	cluster *cluster
	memory  *memory
	name    string
	// work is as the hub has it, which others use, too; nil if it is gone.
	work *workv1.ManifestWork
	// status is a copy of the work's to change.
	status workv1.ManifestWorkStatus
	// record is the AppliedManifestWork of the work.
	record *ledger.Record
	// keeper is nil if a record was asked for by name.
	keeper *ledger.Keeper

	plan     *plan.Plan
	delivery *deliver.Delivery
	// removed is what came of what the work does not want any more.
	removed removal.Result
	// again is when to come back if nothing happens; zero is never.
	again    time.Duration
	measured measured
	// span is that of the delivery, if it is traced.
	span *tracing.Span
}

// phase is a step of a pass over a work that is to be applied.
type phase func(*pass, context.Context) error

// Reconcile makes one work real on its member, or removes it, and reports.
func (p *Part) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	s := p.cluster(request.Cluster)
	if s == nil || !s.slots.Enter(request) { // comes again with the connection, or when another is done
		return reconcile.Result{}, nil
	}
	defer s.catchUp(request.Work)
	defer s.slots.Leave()
	ctx, cancel := s.bind(ctx)
	defer cancel()

	this, err := s.open(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	this.measured = this.memory.times.begin()
	walking, span := traced(ctx, this)
	err = this.walk(walking)
	span.End(err)
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

// open reads what a pass is about.
func (s *cluster) open(ctx context.Context, request Request) (*pass, error) {
	this := &pass{cluster: s, memory: s.memory(request), name: request.Work}
	var err error
	if request.Work == "" {
		this.name = request.Applied
		this.record, err = s.ledger.OpenNamed(ctx, &this.memory.record, request.Applied)
		return this, err
	}
	if this.work, err = s.works.Read(ctx, request.Work, &this.memory.work); err != nil {
		return nil, err
	}
	if this.work != nil {
		this.status = *this.work.Status.DeepCopy()
	}
	if this.record, err = s.ledger.Open(ctx, &this.memory.record, request.Work); err != nil {
		return nil, err
	}
	this.keeper, err = s.ledger.OpenKeeper(ctx, &this.memory.record, request.Work)
	return this, err
}

// walk does what there is to do.
func (p *pass) walk(ctx context.Context) error {
	switch {
	case p.work == nil:
		return p.withoutWork(ctx)
	case p.record.Claims().Made():
		return p.record.Claims().Deny(ctx)
	case p.record.Claims().Foreign():
		return p.claim(ctx)
	case p.work.DeletionTimestamp != nil:
		return p.finalize(ctx)
	case !p.cluster.interpreted.ready(p.work):
		return nil
	case suspended(p.work):
		return p.suspend(ctx)
	case p.record.Deleted():
		return p.renew(ctx)
	case !runtime.HasFinalizer(p.work):
		return p.cluster.works.AddFinalizer(ctx, p.work) // which starts the next pass
	default:
		return p.deliver(ctx)
	}
}

// deliver makes the work real, phase by phase.
func (p *pass) deliver(ctx context.Context) error {
	for _, phase := range []phase{
		(*pass).prepare, (*pass).note, applyTraced, (*pass).prune, (*pass).emptyKeeper, (*pass).observe, concludeTraced,
	} {
		if err := phase(p, ctx); err != nil {
			return err
		}
	}
	p.memory.plan = p.plan.Rest(p.cluster.options.Clock.Now())
	return nil
}

// prepare reads the manifests and finds the resources of their kinds.
func (p *pass) prepare(context.Context) error {
	var isNew bool
	if p.plan, isNew = plan.For(p.work, p.memory.plan, plan.Options{Health: p.cluster.options.Health}); isNew {
		p.cluster.denials.Forget(p.name) // it is tried at once
	}
	p.memory.plan = p.plan
	p.memory.leavingSince = time.Time{}
	p.delivery = &deliver.Delivery{
		Deliverer: p.cluster.deliverer, Work: p.work, Plan: p.plan, Record: p.record, Budget: budget.New(p.cluster.options.Clock),
	}
	if p.plan.Executor != nil {
		p.delivery.Session = p.cluster.guard.Session(*p.plan.Executor)
	}
	p.cluster.interpreted.use(p.name, p.plan.Kinds())
	p.plan.Begin()
	p.plan.Resolve(p.plan.Items, p.work, p.cluster.finder)
	return nil
}

// note makes sure that what is going to be applied is found again.
func (p *pass) note(ctx context.Context) error {
	return p.record.Ensure(ctx, p.plan.Types(), p.work)
}

// apply brings the objects to the member, class by class. What became of each
// is in its outcome; only a record that cannot be written is an error.
func (p *pass) apply(ctx context.Context) error {
	for i, wave := range p.plan.Waves {
		if i > 0 {
			// An earlier wave may have brought the definitions of this one's kinds.
			p.plan.Resolve(wave, p.work, p.cluster.finder)
			if err := p.note(ctx); err != nil {
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
	p.retry() //nolint:contextcheck // what it waits for is watched for longer than the pass
	return nil
}

// applyWave brings the items of a wave to the member. If the work is deleted
// meanwhile, requests that are under way are cut off, as they may hang: what
// they bring all the same is owned by the record, and found or collected.
func (p *pass) applyWave(ctx context.Context, wave []*plan.Item) error {
	ctx, done := p.memory.interruptible(ctx)
	defer done()
	return p.delivery.Wave(ctx, wave, p.memory.deleting.Load)
}

// retry decides when to come back for what did not succeed.
func (p *pass) retry() {
	passing := false
	denied := false
	for _, it := range p.plan.Items {
		p.comeBack(it.Outcome.Again)
		switch {
		case it.Refused != nil: // until the work changes
		case it.Outcome.Denied: // in its own time
			denied = true
		case it.Outcome.Problem.Trouble == apply.TroubleNone:
		case it.Outcome.Problem.Trouble == apply.TroublePassing, it.Outcome.Problem.Trouble == apply.TroubleRaced:
			passing = true
		case it.Outcome.Problem.Trouble == apply.TroubleConflict:
			p.cluster.waiters.Add(p.name, it.Object)
			p.comeBack(refusedRetry)
			if p.delivery.ChangedSince(it) {
				p.comeBack(conflictRetry) // it changed before we waited for that
			}
		default:
			p.comeBack(refusedRetry)
		}
	}
	missing := p.plan.Missing()
	if p.cluster.arrivals.wait(p.name, lack{groups: missing.Groups, namespaces: missing.Namespaces}) {
		p.memory.retries.Restart()
	}
	if denied {
		p.comeBack(p.cluster.denials.Add(p.name))
	} else {
		p.cluster.denials.Forget(p.name)
	}
	if !passing {
		p.memory.retries.End()
		return
	}
	p.comeBack(p.memory.retries.Next(p.cluster.options.Clock.Now(), missing.Own))
}

// prune lets go of the objects that the work does not have any more.
func (p *pass) prune(ctx context.Context) (err error) {
	p.removed, err = p.cluster.remover.Remove(ctx, removal.Job{Record: p.record, Fates: p.plan.Fates()})
	p.comeBack(p.removed.Again)
	return err
}

// observe reads the objects that the work asks something about.
func (p *pass) observe(ctx context.Context) error {
	again, err := p.cluster.observer.Observe(ctx, observe.Work{
		Name: p.name, Plan: p.plan, Session: p.delivery.Session, Budget: p.delivery.Budget, Memory: &p.memory.observed,
	})
	p.comeBack(again)
	return err
}

// conclude lists the objects in the record before the hub hears of them, so
// that whoever reads Applied=True finds them there. If the list cannot be
// written, the hub hears all the same.
func (p *pass) conclude(ctx context.Context) error {
	err := p.list(ctx)
	if apierrors.IsConflict(err) {
		return err // and soon again
	}
	return errors.Join(err, p.report(ctx))
}

// report writes what became of the manifests, with one request.
func (p *pass) report(ctx context.Context) error {
	if p.memory.retries.Quiet(p.cluster.options.Clock.Now(), p.plan.Missing().Own) > 0 {
		return nil
	}
	for {
		now := p.cluster.options.Clock.Now()
		p.resume()
		p.comeBack(report.Compose(report.Outcomes{
			Work: p.work, Plan: p.plan, Leftovers: p.removed.Leftovers, List: p.appliedResources().Note(), Now: now,
		}, &p.status))
		err := p.writeStatus(ctx)
		if err == nil || !report.Refused(err, p.plan, &p.status, now) {
			return err
		}
		p.status = *p.work.Status.DeepCopy()
	}
}

// writeStatus tells the hub the status. If much was written about the work, what is known when
// its turn comes is told then.
func (p *pass) writeStatus(ctx context.Context) error {
	reports, memory := p.cluster.reports, p.memory.reports
	if wait := reports.Wait(memory, p.work); wait > 0 && !equality.Semantic.DeepEqual(&p.work.Status, &p.status) {
		p.cluster.meter.delayed.Inc()
		p.comeBack(wait)
		return nil
	}
	written, err := p.cluster.works.WriteStatus(ctx, p.work, &p.status, &p.memory.work)
	if written {
		reports.Wrote(memory, p.work, &p.status)
	}
	if err == nil {
		before := stateOf(p.work, &p.work.Status)
		after := stateOf(p.work, &p.status)
		p.memory.state.Store(uint32(after))
		p.cluster.meter.told(&p.memory.times, &p.measured, news{before: before, after: after, written: written})
	}
	return err
}

// list writes which objects there are into the record.
func (p *pass) list(ctx context.Context) error {
	again, err := p.appliedResources().Write(ctx, len(p.removed.Leftovers) > 0)
	p.comeBack(again)
	return err
}

// appliedResources is the list of what the record has.
func (p *pass) appliedResources() *ledger.List {
	list := p.record.List(p.plan)
	list.Gone = p.removed.Gone
	applied := meta.FindStatusCondition(p.work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	list.Heard = applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == p.work.Generation
	return list
}

// comeBack makes the pass come again after the time, or earlier.
func (p *pass) comeBack(after time.Duration) {
	if after > 0 && (p.again == 0 || after < p.again) {
		p.again = after
	}
}
