// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/server/taskgroup"
)

const (
	// refusedRetry is how often an object is read again that the member refused.
	refusedRetry = 30 * time.Second
	// retryMin and retryMax bound the time between reads that fail; it doubles.
	retryMin = 50 * time.Millisecond
	retryMax = 30 * time.Second
)

// Observer reads objects of one member.
type Observer struct {
	// Life ends with the connection, and with it the watches of objects.
	Life      context.Context //nolint:containedctx // it is that of the watches that a pass starts
	Inventory *inventory.Inventory
	// Objects watches objects that are not managed.
	Objects *inventory.ObjectWatcher
	Member  *apply.Member
	Clock   clock.PassiveClock
	// Feedback is how fields are reported.
	Feedback feedback.Options
	// Interval is how often objects are read of whose changes nothing tells.
	Interval time.Duration
	// Parallel is how many objects of a work are read at a time.
	Parallel int
}

// Work is what to observe.
type Work struct {
	Name string
	Plan *plan.Plan
	// Session asks what the executor of the work may do; nil if it has none.
	Session *executor.Session
	// Budget is what its expressions may still cost in this pass.
	Budget *budget.Budget
	Memory *Memory
}

// Observe reads the objects that the work asks something about and that have
// changed since they were read last, and notes what they say. Again is when to
// call it again if nothing tells of a change; zero is never.
func (r *Observer) Observe(ctx context.Context, work Work) (again time.Duration, err error) {
	items := work.Plan.Observed()
	if len(items) == 0 {
		if work.Memory.observed.Swap(nil) != nil {
			r.Objects.Use(r.Life, work.Name, nil) //nolint:contextcheck // the watches outlive the pass
		}
		return 0, nil
	}
	r.Objects.Use(r.Life, work.Name, targets(items)) //nolint:contextcheck // the watches outlive the pass
	memory := work.Memory.begin(items)
	stale, urgent := r.stale(items)
	now := r.Clock.Now()
	most := r.longestWindow(items)
	switch due := memory.pace.due(most); {
	case len(stale) == 0:
	case !urgent && now.Before(due): // what was found before is reported
		again = due.Sub(now)
	default:
		group := taskgroup.New(r.Parallel)
		for _, it := range stale {
			group.Go(func() error { r.read(ctx, &work, it); return nil })
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		memory.pace = memory.pace.evaluated(now, most)
		memory.due.Store(memory.pace.due(most).UnixNano())
	}
	now = r.Clock.Now()
	for _, it := range items {
		if !it.Observation.Next.IsZero() {
			if next := max(it.Observation.Next.Sub(now), retryMin); again == 0 || next < again {
				again = next
			}
		}
		if it.ReadOnly && it.Outcome.Problem.Trouble == apply.TroubleNone {
			it.Outcome.Presence, it.Outcome.Problem = it.Observation.Presence, it.Observation.Lasting()
		}
	}
	return again, ctx.Err()
}

// Forget drops what is remembered of a work that is gone.
func (r *Observer) Forget(work string) { r.Objects.Use(r.Life, work, nil) }

// longestWindow returns the time that a report may be late while the objects
// keep changing: polled fields are not read more often than they were polled.
func (r *Observer) longestWindow(items []*plan.Item) time.Duration {
	for _, it := range items {
		if it.Observation.Watch {
			return paceWindowMax
		}
	}
	return r.Interval
}

// unreadable tells whether the item's object is not to be read at all.
func unreadable(it *plan.Item) bool { return it.Outcome.Denied || taken(it) }

// taken tells whether the item's object is somebody else's. It is not read, and
// watched only because it may go.
func taken(it *plan.Item) bool { return it.Outcome.Problem.Trouble == apply.TroubleTaken }

// targets returns the objects that are not ours and that are to be watched.
func targets(items []*plan.Item) []inventory.Target {
	var targets []inventory.Target
	for _, it := range items {
		if it.ReadOnly && it.Observation.Watch || taken(it) {
			targets = append(targets, inventory.Target{Object: it.Object, Version: it.Resource.Version})
		}
	}
	return targets
}

// stale returns the items whose objects have to be read, and notes what is
// known of the others without reading. Urgent are objects that were not read
// since the work changed.
func (r *Observer) stale(items []*plan.Item) (stale []*plan.Item, urgent bool) {
	now := r.Clock.Now()
	for _, it := range items {
		o := it.Observation
		if unreadable(it) {
			o.Next = time.Time{}
			o.Lost(plan.PresenceUnknown, it.Outcome.Problem)
			continue
		}
		version, exists, known := r.version(it)
		if known && !exists {
			o.Next = time.Time{}
			o.Lost(plan.PresenceNo, apply.Problem{})
			continue
		}
		current, waits := answered(o, version, known, now)
		switch {
		case current:
			o.Next = time.Time{}
		case waits: // a failure, or nothing tells of changes
		case known || r.untold(it):
			stale = append(stale, it)
			urgent = urgent || o.Seen == "" || !known
		default:
			o.Next = time.Time{} // the inventory tells when it has listed the type
		}
	}
	return stale, urgent
}

// answered tells whether an observation is of the object as it is, and if not, whether
// that has to wait. What an interpreter did not say of it is asked again.
func answered(o *plan.Observation, version string, known bool, now time.Time) (current, waits bool) {
	sound := o.Problem.Trouble == apply.TroubleNone
	same := known && sound && version == o.Seen
	again := same && interpret.Again(o.Misjudged) > 0
	if same && !again {
		return true, false
	}
	return false, (!known || !sound || again) && now.Before(o.Next)
}

// untold tells whether nothing will tell of changes of the item's object.
func (r *Observer) untold(it *plan.Item) bool {
	return it.ReadOnly || ledger.Blind(r.Inventory, it.Resource.GroupResource())
}

// version returns the resourceVersion of the item's object, as far as it is
// known without asking.
func (r *Observer) version(it *plan.Item) (version string, exists, known bool) {
	if it.ReadOnly {
		version, known = r.Objects.Get(it.Object)
		return version, version != "", known
	}
	live, known := r.Inventory.Get(it.Object)
	if live == nil {
		return "", false, known
	}
	return live.ResourceVersion, true, true
}

// read reads the object of an item and notes what it says.
func (r *Observer) read(ctx context.Context, work *Work, it *plan.Item) {
	o := it.Observation
	now := r.Clock.Now()
	if problem := mayRead(ctx, work.Session, it); problem.Trouble != apply.TroubleNone {
		o.Next = now.Add(refusedRetry)
		o.Lost(plan.PresenceUnknown, problem)
		return
	}
	object, err := r.Member.Read(ctx, it.Resource.Version, it.Object)
	if ctx.Err() != nil {
		return
	}
	o.Next = time.Time{}
	if _, _, known := r.version(it); !known {
		o.Next = now.Add(r.Interval)
	}
	switch {
	case apierrors.IsNotFound(err):
		o.Lost(plan.PresenceNo, apply.Problem{})
	case err != nil:
		o.Failures++
		o.Problem = apply.Explain(err, "get", it.Object)
		o.Problem.Message = strings.TrimSpace(o.Problem.Message)
		again := refusedRetry
		if o.Problem.Trouble == apply.TroublePassing {
			again = backoff.After(o.Failures, backoff.Between(retryMin, retryMax))
		}
		o.Next = now.Add(again)
	default:
		o.Take(ctx, object, r.Feedback, work.Budget)
		if again := interpret.Again(o.Misjudged); again > 0 {
			o.Next = now.Add(again)
		}
	}
}

// mayRead returns why the executor of the work may not read the item's object:
// what it may not know is not reported, either.
func mayRead(ctx context.Context, session *executor.Session, it *plan.Item) apply.Problem {
	if session == nil {
		return apply.Problem{}
	}
	var lacking *executor.DeniedError
	err := session.Check(ctx, it.Object, executor.ToRead())
	if errors.As(err, &lacking) {
		return apply.Problem{Trouble: apply.TroubleForbidden, Message: lacking.Error()}
	}
	return apply.Explain(err, "create", executor.Reviews())
}
