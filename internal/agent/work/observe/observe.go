// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// MemberObserver reads objects of one member.
type MemberObserver struct {
	// Life ends with the connection, and with it the watches of objects.
	Life      context.Context //nolint:containedctx // it is that of the watches that a pass starts
	Inventory *inventory.Inventory
	// Objects watches objects that are not managed.
	Objects *inventory.ObjectWatcher
	Member  *apply.Member
	Clock   clock.PassiveClock
	// Feedback is how fields are reported.
	Feedback feedback.ValueOptions
	// Interval is how often objects are read of whose changes nothing tells.
	Interval time.Duration
	// Parallel is how many objects of a work are read at a time.
	Parallel int
}

// ObservedWork is what to observe.
type ObservedWork struct {
	Name string
	Plan *plan.Plan
	// Session asks what the executor of the work may do; nil if it has none.
	Session *executor.ReviewSession
	// Budget is what its expressions may still cost in this pass.
	Budget *budget.Budget
	Memory *ObservationMemory
}

// ObserveWork reads the objects that the work asks something about and that have
// changed since they were read last, and notes what they say. Again is when to
// call it again if nothing tells of a change; zero is never.
func (r *MemberObserver) ObserveWork(ctx context.Context, work ObservedWork) (again time.Duration, err error) {
	items := work.Plan.ObservedItems()
	if len(items) == 0 {
		if work.Memory.observed.Swap(nil) != nil {
			r.Objects.UseTargets(r.Life, work.Name, nil) //nolint:contextcheck // the watches outlive the pass
		}
		return 0, nil
	}
	for _, it := range items {
		it.Observation.FollowRevision(&it.Desired)
	}
	r.Objects.UseTargets(r.Life, work.Name, watchTargets(items)) //nolint:contextcheck // the watches outlive the pass
	memory := work.Memory.beginObserving(items)
	stale, urgent := r.staleItems(items)
	now := r.Clock.Now()
	most := r.longestWindow(items)
	switch due := memory.pace.nextEvaluation(most); {
	case len(stale) == 0:
	case !urgent && now.Before(due): // what was found before is reported
		again = due.Sub(now)
	default:
		group := taskgroup.NewLimitedGroup(r.Parallel)
		for _, it := range stale {
			group.Go(func() error { r.readObject(ctx, &work, &it.Desired, it.Observation); return nil })
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		memory.pace = memory.pace.afterEvaluation(now, most)
		memory.due.Store(memory.pace.nextEvaluation(most).UnixNano())
	}
	now = r.Clock.Now()
	for _, it := range items {
		if !it.Observation.Next.IsZero() {
			if next := max(it.Observation.Next.Sub(now), retryMin); again == 0 || next < again {
				again = next
			}
		}
		if it.Desired.ReadOnly && it.ObjectProblem().Trouble == apply.TroubleNone {
			it.Reading = plan.ReadOutcome{IsRead: true, Presence: it.Observation.Presence, Problem: it.Observation.LastingProblem()}
		}
	}
	return again, ctx.Err()
}

// ForgetWork drops what is remembered of a work that is gone.
func (r *MemberObserver) ForgetWork(work string) { r.Objects.UseTargets(r.Life, work, nil) }

// longestWindow returns the time that a report may be late while the objects
// keep changing: polled fields are not read more often than they were polled.
func (r *MemberObserver) longestWindow(items []*plan.ManifestItem) time.Duration {
	for _, it := range items {
		if it.Observation.Watch {
			return paceWindowMax
		}
	}
	return r.Interval
}

// isUnreadable reports whether the object that was delivered so is not to be read at all.
func isUnreadable(outcome *plan.ItemOutcome) bool {
	return outcome.Denied || isTakenObject(outcome)
}

// isTakenObject reports whether the object that was delivered so is somebody else's. It is not read, and
// watched only because it may go.
func isTakenObject(outcome *plan.ItemOutcome) bool {
	return outcome.Problem.Trouble == apply.TroubleTaken
}

// watchTargets returns the objects that are not ours and that are to be watched.
func watchTargets(items []*plan.ManifestItem) []inventory.WatchTarget {
	var targets []inventory.WatchTarget
	for _, it := range items {
		if it.Desired.ReadOnly && it.Observation.Watch || isTakenObject(&it.Outcome) {
			targets = append(targets, inventory.WatchTarget{Object: it.Desired.Object, Version: it.Desired.Resource.Version})
		}
	}
	return targets
}

// staleItems returns the items whose objects have to be read, and notes what is
// known of the others without reading. Urgent are objects that were not read
// since the work changed.
func (r *MemberObserver) staleItems(items []*plan.ManifestItem) (stale []*plan.ManifestItem, urgent bool) {
	now := r.Clock.Now()
	for _, it := range items {
		o := it.Observation
		if isUnreadable(&it.Outcome) {
			o.Next = time.Time{}
			o.MarkLost(plan.PresenceUnknown, it.Outcome.Problem)
			continue
		}
		version, exists, known := r.objectVersion(&it.Desired)
		if known && !exists {
			o.Next = time.Time{}
			o.MarkLost(plan.PresenceNo, apply.ObjectProblem{})
			continue
		}
		current, waits := isCurrent(o, version, known, now)
		switch {
		case current:
			o.Next = time.Time{}
		case waits: // a failure, or nothing tells of changes
		case known || r.isUnwatched(&it.Desired):
			stale = append(stale, it)
			urgent = urgent || o.Seen == "" || !known
		default:
			o.Next = time.Time{} // the inventory tells when it has listed the type
		}
	}
	return stale, urgent
}

// isCurrent reports whether an observation is of the object as it is, and if not, whether
// that has to wait. What an interpreter did not say of it is asked again, as is what there was no time for.
func isCurrent(o *plan.Observation, version string, known bool, now time.Time) (current, waits bool) {
	sound := o.Problem.Trouble == apply.TroubleNone
	same := known && sound && version == o.Seen
	again := same && (interpret.RetryDelayOf(o.Misjudged) > 0 || o.OutOfTime)
	if same && !again {
		return true, false
	}
	return false, (!known || !sound || again) && now.Before(o.Next)
}

// isUnwatched reports whether nothing will tell of changes of the object.
func (r *MemberObserver) isUnwatched(want *plan.DesiredObject) bool {
	return want.ReadOnly || ledger.IsBlindType(r.Inventory, want.Resource.GroupResource())
}

// objectVersion returns the resourceVersion of the object, as far as it is
// known without asking.
func (r *MemberObserver) objectVersion(want *plan.DesiredObject) (version string, exists, known bool) {
	if want.ReadOnly {
		version, known = r.Objects.Get(want.Object)
		return version, version != "", known
	}
	live, known := r.Inventory.Get(want.Object)
	if live == nil {
		return "", false, known
	}
	return live.ResourceVersion, true, true
}

// nextRead returns when to read an object again that was read now, zero if something tells.
func (r *MemberObserver) nextRead(want *plan.DesiredObject, now time.Time) time.Time {
	if _, _, known := r.objectVersion(want); known {
		return time.Time{}
	}
	return now.Add(r.Interval)
}

// readObject reads an object that is wanted, and notes in the observation what it says.
func (r *MemberObserver) readObject(ctx context.Context, work *ObservedWork, want *plan.DesiredObject, o *plan.Observation) {
	now := r.Clock.Now()
	if problem := readProblem(ctx, work.Session, want.Object); problem.Trouble != apply.TroubleNone {
		o.Next = now.Add(refusedRetry)
		o.MarkLost(plan.PresenceUnknown, problem)
		return
	}
	err := r.Member.ViewObject(ctx, want.Resource.Version, want.Object, func(object *unstructured.Unstructured) {
		if ctx.Err() == nil {
			o.Next = r.nextRead(want, now)
			o.EvaluateObject(ctx, object, r.Feedback, work.Budget)
		}
	})
	switch {
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err):
		o.Next = r.nextRead(want, now)
		o.MarkLost(plan.PresenceNo, apply.ObjectProblem{})
	case err != nil:
		o.Failures++
		o.Problem = apply.ExplainError(err, "get", want.Object)
		o.Problem.Message = strings.TrimSpace(o.Problem.Message)
		again := refusedRetry
		if o.Problem.Trouble == apply.TroublePassing {
			again = backoff.DelayAfter(o.Failures, backoff.ExponentialBetween(retryMin, retryMax))
		}
		o.Next = now.Add(again)
	case work.Budget.IsOwnerSpent():
		o.OutOfTime = true
		o.Next = now.Add(refusedRetry)
	default:
		if again := interpret.RetryDelayOf(o.Misjudged); again > 0 {
			o.Next = now.Add(again)
		}
	}
}

// readProblem returns why the executor of the work may not read an object:
// what it may not know is not reported, either.
func readProblem(ctx context.Context, session *executor.ReviewSession, object apply.ObjectRef) apply.ObjectProblem {
	if session == nil {
		return apply.ObjectProblem{}
	}
	var lacking *executor.DeniedError
	err := session.CheckVerbs(ctx, object, executor.ToRead())
	if errors.As(err, &lacking) {
		return apply.ObjectProblem{Trouble: apply.TroubleForbidden, Message: lacking.Error()}
	}
	return apply.ExplainError(err, "create", executor.ReviewObject())
}
