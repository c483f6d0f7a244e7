// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/budget"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// observer is what is asked about the objects of one manifestConfig, which
// share it.
type observer struct {
	feedback *feedback.Set
	rules    *rules.Set
	kinds    interpret.Chain
	watch    bool // feedbackScrapeType Watch
	health   bool
}

// observation is what is asked about the object of an item, and what was found.
type observation struct {
	*observer
	// seen is the resourceVersion of the object that the findings are about, ""
	// if it was not read since the work changed.
	seen     string
	presence presence
	// problem is why the object could not be read the last time.
	problem  apply.Problem
	failures int
	// next is when to read the object again even if nothing tells of a change;
	// zero is never.
	next time.Time

	values     []workv1.FeedbackValue
	unread     []string // what feedback rules ask for and is not there to be reported
	conditions []metav1.Condition
	health     health.Health
}

// observing is what a work that is observed has to remember from pass to pass.
type observing struct {
	pace pace
	// due is when the objects may be read next, in nanoseconds since 1970.
	due atomic.Int64
	// objects are those that are observed. The map does not change.
	objects atomic.Pointer[map[apply.Object]struct{}]
}

// observe reads the objects that the work asks something about and that have
// changed since they were read last, and notes what they say. It keeps nothing
// else of them.
func (p *pass) observe(ctx context.Context) error {
	var items []*item
	for _, it := range p.plan.items {
		if it.observation != nil && it.resolved && it.refused == nil {
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		if p.state.observing.Swap(nil) != nil {
			p.lookout.Use(p.ctx, p.name, nil) //nolint:contextcheck // the watches outlive the pass
		}
		return nil
	}
	p.lookout.Use(p.ctx, p.name, p.targets(items)) //nolint:contextcheck // the watches outlive the pass
	memory := p.state.observe(items)
	stale, urgent := p.stale(items)
	now := p.options.Clock.Now()
	most := p.longestWindow(items)
	switch due := memory.pace.due(most); {
	case len(stale) == 0:
	case !urgent && now.Before(due): // what was found before is reported
		p.comeBack(due.Sub(now))
	default:
		var group errgroup.Group
		group.SetLimit(writesPerWork)
		for _, it := range stale {
			group.Go(func() error { p.read(ctx, it); return nil })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		memory.pace = memory.pace.evaluated(now, most)
		memory.due.Store(memory.pace.due(most).UnixNano())
	}
	now = p.options.Clock.Now()
	for _, it := range items {
		if !it.observation.next.IsZero() {
			p.comeBack(max(it.observation.next.Sub(now), failureBackoffMin))
		}
		if it.strategy == apply.StrategyReadOnly && it.outcome.problem.Trouble == apply.TroubleNone {
			it.outcome.presence, it.outcome.problem = it.observation.presence, it.observation.lasting()
		}
	}
	return ctx.Err()
}

// lasting returns why the object cannot be read, unless that may be over soon.
func (o *observation) lasting() apply.Problem {
	if o.problem.Trouble == apply.TroublePassing && o.failures <= quietRetries {
		return apply.Problem{}
	}
	return o.problem
}

// observe returns the memory of a work that is observed.
func (st *state) observe(items []*item) *observing {
	memory := st.observing.Load()
	if memory == nil {
		memory = &observing{}
		st.observing.Store(memory)
	}
	old := memory.objects.Load()
	same := old != nil && len(*old) == len(items)
	for i := 0; same && i < len(items); i++ {
		_, same = (*old)[items[i].object]
	}
	if !same {
		objects := make(map[apply.Object]struct{}, len(items))
		for _, it := range items {
			objects[it.object] = struct{}{}
		}
		memory.objects.Store(&objects)
	}
	return memory
}

// wait returns how long a change of the object may wait. It is false if the
// work does not observe the object.
func (o *observing) wait(object apply.Object, now time.Time) (time.Duration, bool) {
	if o == nil {
		return 0, false
	}
	if objects := o.objects.Load(); objects == nil {
		return 0, false
	} else if _, ok := (*objects)[object]; !ok {
		return 0, false
	}
	return max(0, time.Unix(0, o.due.Load()).Sub(now)), true
}

// longestWindow returns the time that a report may be late while the objects
// keep changing: polled fields are not read more often than they were polled.
func (p *pass) longestWindow(items []*item) time.Duration {
	for _, it := range items {
		if it.observation.watch {
			return paceWindowMax
		}
	}
	return p.options.StatusSyncInterval
}

// targets returns the objects that are not ours and that are to be watched.
func (p *pass) targets(items []*item) []inventory.Target {
	var targets []inventory.Target
	for _, it := range items {
		if it.strategy == apply.StrategyReadOnly && it.observation.watch {
			targets = append(targets, inventory.Target{Object: it.object, Version: it.resource.Version})
		}
	}
	return targets
}

// stale returns the items whose objects have to be read, and notes what is
// known of the others without reading. Urgent are objects that were not read
// since the work changed.
func (p *pass) stale(items []*item) (stale []*item, urgent bool) {
	now := p.options.Clock.Now()
	for _, it := range items {
		o := it.observation
		if it.outcome.denied {
			o.next = time.Time{}
			o.lost(presenceUnknown, it.outcome.problem)
			continue
		}
		version, exists, known := p.version(it)
		sound := o.problem.Trouble == apply.TroubleNone
		switch {
		case known && !exists:
			o.next = time.Time{}
			o.lost(presenceNo, apply.Problem{})
		case known && sound && version == o.seen:
			o.next = time.Time{}
		case (!known || !sound) && now.Before(o.next): // a failure, or nothing tells of changes
		case known || p.unwatched(it):
			stale = append(stale, it)
			urgent = urgent || o.seen == "" || !known
		default:
			o.next = time.Time{} // the inventory tells when it has listed the type
		}
	}
	return stale, urgent
}

// version returns the resourceVersion of the item's object, as far as it is
// known without asking.
func (p *pass) version(it *item) (version string, exists, known bool) {
	if it.strategy == apply.StrategyReadOnly {
		version, known = p.lookout.Get(it.object)
		return version, version != "", known
	}
	record, known := p.inventory.Get(it.object)
	if record == nil {
		return "", false, known
	}
	return record.ResourceVersion, true, true
}

// unwatched tells whether nothing will tell of changes of the item's object.
func (p *pass) unwatched(it *item) bool {
	return it.strategy == apply.StrategyReadOnly || p.unseen(it)
}

// read reads the object of an item and notes what it says.
func (p *pass) read(ctx context.Context, it *item) {
	o := it.observation
	now := p.options.Clock.Now()
	if problem := p.mayRead(ctx, it); problem.Trouble != apply.TroubleNone {
		o.next = now.Add(refusedRetry)
		o.lost(presenceUnknown, problem)
		return
	}
	object, err := p.member.Read(ctx, it.resource.Version, it.object)
	if ctx.Err() != nil {
		return
	}
	o.next = time.Time{}
	if _, _, known := p.version(it); !known {
		o.next = now.Add(p.options.StatusSyncInterval)
	}
	switch {
	case apierrors.IsNotFound(err):
		o.lost(presenceNo, apply.Problem{})
	case err != nil:
		o.failures++
		o.problem = apply.Explain(err, "get", it.object)
		o.problem.Message = strings.TrimSpace(o.problem.Message)
		again := refusedRetry
		if o.problem.Trouble == apply.TroublePassing {
			again = min(failureBackoffMin<<min(o.failures-1, 16), failureBackoffMax)
		}
		o.next = now.Add(again)
	default:
		o.take(ctx, object, p.options.Feedback, p.budget)
	}
}

// take notes what an object says, unless the context ends: then the object has
// not been seen, and is read again. Left is what the work may still cost.
func (o *observation) take(ctx context.Context, object *unstructured.Unstructured, options feedback.Options, left *budget.Budget) {
	found := observation{observer: o.observer, presence: presenceYes, seen: object.GetResourceVersion(), next: o.next}
	if o.feedback != nil {
		found.values, found.unread = o.feedback.Values(object, o.kinds, left, options)
	}
	if o.rules != nil {
		found.conditions = o.rules.Evaluate(ctx, object, o.kinds, left)
	}
	if o.observer.health {
		found.health = o.kinds.Health(object)
	}
	if ctx.Err() != nil {
		o.next = time.Time{}
		return
	}
	*o = found
}

// mayRead returns why the executor of the work may not read the item's object:
// what it may not know is not reported, either.
func (p *pass) mayRead(ctx context.Context, it *item) apply.Problem {
	if p.session == nil {
		return apply.Problem{}
	}
	var lacking *executor.DeniedError
	err := p.session.Check(ctx, it.object, executor.Needs(apply.StrategyReadOnly))
	if errors.As(err, &lacking) {
		return apply.Problem{Trouble: apply.TroubleForbidden, Message: lacking.Error()}
	}
	return apply.Explain(err, "create", reviews())
}

// lost notes that there is nothing to read.
func (o *observation) lost(presence presence, problem apply.Problem) {
	*o = observation{observer: o.observer, presence: presence, problem: problem, next: o.next}
}
