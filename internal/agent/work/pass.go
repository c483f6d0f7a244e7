// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/apply/ignore"
	"github.com/capstan-io/capstan/internal/budget"
)

// conflictRetry is how soon a pass comes again that met a newer state of what
// it wrote.
const conflictRetry = 100 * time.Millisecond

// errUnsupported marks options of the API that this agent does not know.
var errUnsupported = errors.New("the object is not applied")

// errDeleted ends a pass whose work was deleted meanwhile.
var errDeleted = errors.New("the work was deleted")

// pass is one walk over a work.
type pass struct {
	*site
	state *state
	name  string
	// stored is the work as the hub has it, which others use, too, nil if it is gone;
	// work is a copy to change the status in, and nothing else.
	stored, work *workv1.ManifestWork
	// record is the AppliedManifestWork, nil if there is none. Cached says that
	// the cache has one.
	record *workv1.AppliedManifestWork
	cached bool
	// keeper owns the objects of a record that someone deleted until there is a
	// new one. It is nil as a rule.
	keeper *workv1.AppliedManifestWork
	plan   *plan
	// session asks what the executor of the work may do; nil if it has none.
	session *executor.Session
	// leftovers are objects that have to go and are still there; gone are those
	// that are not.
	leftovers []leftover
	gone      map[apply.Object]bool
	// crowded are items that are not applied as the record cannot list them.
	crowded map[*item]struct{}
	// held says that the keeper has objects that are not the record's yet.
	held bool
	// budget is what the expressions of the work may cost in this pass.
	budget *budget.Budget
	// trouble is an error that a deletion met.
	trouble error
	// again is when to come back if nothing happens; zero is never.
	again time.Duration
}

// phase is a step of a pass over a work that is to be applied.
type phase func(*pass, context.Context) error

// Reconcile makes one work real on its member, or removes it, and reports.
func (p *Part) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	s := p.site(request.Cluster)
	if s == nil || !s.enter(request) { // comes again with the connection, or when another is done
		return reconcile.Result{}, nil
	}
	defer s.leave()
	ctx, cancel := s.bind(ctx)
	defer cancel()

	this, err := s.open(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case this.work == nil && this.isKeeper():
		s.queue.Add(s.requestOf(this.record)) // which takes care of both
	case this.stored == nil && this.record == nil && this.keeper == nil:
		if !this.cached {
			s.forget(this.name) //nolint:contextcheck // it ends watches of the connection
		}
	case this.stored == nil:
		err = this.evict(ctx)
	case this.challenged():
		err = this.deny(ctx)
	case this.foreign():
		err = this.claim(ctx)
	case this.stored.DeletionTimestamp != nil:
		err = this.finalize(ctx)
	case this.record != nil && this.record.DeletionTimestamp != nil:
		err = this.renew(ctx)
	case !slices.Contains(this.stored.Finalizers, workv1.FinalizerManifestWorkCleanup):
		err = this.addFinalizer(ctx) // which starts the next pass
	default:
		err = this.deliver(ctx)
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, errDeleted):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		log.FromContext(ctx).V(1).Info("something changed in between; looking again", "reason", err.Error())
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: this.again}, nil
}

// deliver makes the work real, phase by phase.
func (p *pass) deliver(ctx context.Context) error {
	for _, phase := range []phase{
		(*pass).prepare, (*pass).note, (*pass).apply, (*pass).prune, (*pass).settle, (*pass).observe, (*pass).report, (*pass).list,
	} {
		if err := phase(p, ctx); err != nil {
			return err
		}
	}
	p.state.plan = p.plan.rest(p.options.Clock.Now())
	return nil
}

// open reads what a pass is about.
func (s *site) open(ctx context.Context, request Request) (*pass, error) {
	this := &pass{site: s, name: request.Work, budget: budget.New(s.options.Clock)}
	recordName := request.Applied
	if request.Work != "" {
		recordName = s.recordName(request.Work)
		this.state = s.state(request.Work)
		work := &workv1.ManifestWork{}
		written := this.state.work.Load() // before the cache is read: it is let go of when the cache has it
		key := client.ObjectKey{Namespace: string(s.connection.Name), Name: request.Work}
		err := s.connection.Hub.GetClient().Get(ctx, key, work)
		switch {
		case apierrors.IsNotFound(err):
			this.state.work.Store(nil)
		case err != nil:
			return nil, fmt.Errorf("reading manifestwork %q: %w", key, err)
		default:
			if work, err = s.packer.OpenWork(work); err != nil {
				return nil, err
			}
			this.stored = this.state.ahead(work, written)
			work := *this.stored
			work.Status = *this.stored.Status.DeepCopy()
			this.work = &work
		}
	} else {
		this.name = request.Applied
		this.state = s.state(request.Applied)
	}
	var err error
	if this.record, this.cached, err = s.readRecord(ctx, this.state, recordName); err != nil {
		return nil, err
	}
	if request.Work != "" {
		err = this.openKeeper(ctx)
	}
	return this, err
}

// readRecord returns the record as it is or as it was last written, and
// whether the cache has it.
func (s *site) readRecord(ctx context.Context, st *state, name string) (record *workv1.AppliedManifestWork, cached bool, err error) {
	written := st.record.Load() // before the cache is read: it is let go of when the cache has it
	record = &workv1.AppliedManifestWork{}
	err = s.connection.Spoke.GetClient().Get(ctx, client.ObjectKey{Name: name}, record)
	switch {
	case apierrors.IsNotFound(err):
		record = written // and not in the cache yet
	case err != nil:
		return nil, false, fmt.Errorf("reading appliedmanifestwork %q: %w", name, err)
	default:
		cached = true
		if record, err = s.packer.OpenRecord(record); err != nil {
			return nil, false, err
		}
		if written != nil {
			if newest(record, written) == record {
				st.record.CompareAndSwap(written, nil) // the cache has caught up
			} else {
				record = written
			}
		}
	}
	if record != nil && st.dropped == record.UID {
		record = nil
	}
	return record, cached, nil
}

// prepare reads the manifests and finds the resources of their kinds.
func (p *pass) prepare(context.Context) error {
	health := p.reportsHealth()
	if p.state.plan == nil || p.state.plan.settled != nil || p.state.plan.uid != p.work.UID ||
		p.state.plan.generation != p.work.Generation || p.state.plan.health != health {
		p.state.plan = newPlan(p.work, p.state.plan)
		p.undeny(p.name)
		p.state.plan.health, p.state.plan.completes = health, mayComplete(p.work)
	}
	p.plan = p.state.plan
	if p.plan.executor != nil {
		p.session = p.guard.Session(*p.plan.executor)
	}
	p.state.leavingSince = time.Time{}
	for _, it := range p.plan.items {
		it.outcome = outcome{}
		if it.refused != nil {
			it.outcome.problem = refusal(it.refused)
		}
	}
	p.resolve(p.plan.items)
	p.refuseTwins()
	return nil
}

// resolve finds the resources of the items' kinds that are not known yet.
func (p *pass) resolve(items []*item) {
	for _, it := range items {
		if it.resolved || it.refused != nil {
			continue
		}
		resource, err := p.kinds.Find(it.manifest.Kind)
		if err != nil {
			it.outcome.problem = apply.Explain(err, "apply", apply.Object{})
			continue
		}
		it.outcome = outcome{}
		it.resolve(resource, p.work.Spec.ManifestConfigs)
		if past, ok := p.plan.written[it.hash]; ok {
			it.past = past
		}
		if it.refused != nil {
			it.outcome.problem = refusal(it.refused)
			continue
		}
		p.ask(it)
	}
}

// refuseTwins refuses manifests of objects that an earlier manifest has.
func (p *pass) refuseTwins() {
	first := map[apply.Object]int{}
	for _, it := range p.plan.items {
		if !it.resolved || it.refused != nil {
			continue
		}
		if earlier, ok := first[it.object]; ok {
			it.outcome.problem = apply.Problem{
				Trouble: apply.TroubleInvalid,
				Message: fmt.Sprintf("Manifest %d is for the same object; leave one of them away.", earlier),
			}
			it.refused = errors.New(it.outcome.problem.Message)
			continue
		}
		first[it.object] = it.ordinal
	}
}

// comeBack makes the pass come again after the time, or earlier.
func (p *pass) comeBack(after time.Duration) {
	if after > 0 && (p.again == 0 || after < p.again) {
		p.again = after
	}
}

// refusal is what a manifest has that is not applied whatever the member says.
func refusal(err error) apply.Problem {
	if errors.Is(err, apply.ErrNotObject) || errors.Is(err, ignore.ErrExpression) {
		return apply.Explain(err, "", apply.Object{})
	}
	return apply.Problem{Trouble: apply.TroubleInvalid, Message: sentence(err.Error())}
}
