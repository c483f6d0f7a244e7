// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/declared"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/server/taskgroup"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// unseenResync is how often an object is applied again whose type the agent
// may not watch.
const unseenResync = 5 * time.Minute

// Deliverer brings objects to one member.
type Deliverer struct {
	Inventory *inventory.Inventory
	Member    *apply.Member
	Kinds     *apply.KindResolver
	// Declared knows the fields of the member's kinds.
	Declared *declared.SchemaFields
	// Manifests has room for what is decoded of manifests, of which each owner of works has a share.
	// It is not the Memory of Member. May be nil.
	Manifests *decoding.Memory
	// Interpret knows what users of the hub say of what is in works that are interpreted.
	Interpret interpret.Chain
	Ledger    *ledger.Ledger
	Clock     clock.PassiveClock
	// Parallel is how many objects of a work are written at a time.
	Parallel int
	// ReadInterval is how often objects are looked for that are only read.
	ReadInterval time.Duration
	// Corrected is called for each object that somebody had changed and that was put
	// back. It is called concurrently.
	Corrected func()
	// Adopted is called for each object of which the work takes over fields that somebody had
	// set before, with what to say of that: when they have gone, or when they are taken over and
	// the object could not be applied. It is called concurrently.
	Adopted func(work *workv1.ManifestWork, note string)
}

// Delivery is that of one work in one pass.
type Delivery struct {
	*Deliverer
	// Work is as the hub has it.
	Work   *workv1.ManifestWork
	Plan   *plan.Plan
	Record *ledger.AppliedRecord
	// Session asks what the executor of the work may do; nil if it has none.
	Session *executor.ReviewSession
	// Budget is what its expressions may cost in this pass.
	Budget *budget.Budget
}

// DeliverWave brings items to the member, until it is stopped.
func (d *Delivery) DeliverWave(ctx context.Context, wave []*plan.ManifestItem, stopped func() bool) error {
	noRoom := d.Record.AppliedList(d.Plan).ItemsWithoutRoom()
	group := taskgroup.NewLimitedGroup(d.Parallel)
	for _, it := range wave {
		if stopped() {
			break
		}
		if it.Desired.Refused != nil || !it.IsResolved() {
			continue
		}
		if problem, ok := noRoom[it]; ok {
			it.Outcome.Problem = problem
			continue
		}
		group.Go(func() error { d.deliverItem(ctx, &it.Desired, &it.History, &it.Outcome); return nil })
	}
	return group.Wait()
}

// ChangedSince reports whether the object of an item is not the one any more that
// the pass met.
func (d *Delivery) ChangedSince(it *plan.ManifestItem) bool {
	live, _ := d.liveState(it.Desired.Object)
	return live.Mark != it.Outcome.Met
}

// liveState returns what the inventory knows of an object.
func (d *Delivery) liveState(of apply.ObjectRef) (apply.LiveState, *inventory.ObjectRecord) {
	known, ok := d.Inventory.Get(of)
	live := apply.LiveState{Known: ok}
	if known != nil {
		live.Exists = true
		live.Deleting = known.Going != nil
		live.Mark = known.Mark
		for _, owner := range known.Owners {
			live.Owned = live.Owned || owner.UID == d.Record.UID()
		}
	}
	return live, known
}

// deliverItem decides what to do for an object that is wanted, by what was done before, and does
// it. What comes of that is in the outcome.
func (d *Delivery) deliverItem(ctx context.Context, want *plan.DesiredObject, history *plan.DeliveryHistory, outcome *plan.ItemOutcome) {
	history.FollowRevision(want)
	how := strategyOf(want)
	outcome.Note = cmp.Or(how.statusNote(), noteOf(history))
	live, known := d.liveState(want.Object)
	outcome.Met = live.Mark
	o := &object{Delivery: d, want: want, history: history, outcome: outcome, known: known}
	if d.Plan.IsComplete(d.Work, want) && (live.Owned || !live.Known || !live.Exists) {
		o.resolvePresence(ctx, live)
		return
	}
	if ledger.IsBlindType(d.Inventory, want.Resource.GroupResource()) {
		outcome.Note = "The agent may not list and watch " + want.Resource.GroupResource().String() +
			", so drift is corrected only every " + unseenResync.String() + "."
		o.scheduleResync(unseenResync)
	}
	if _, applies := how.(applier); !applies { // nothing is left out any more
		history.Undeclared = nil
	}
	if history.Undeclared != nil && history.Undeclared.RetryDelay(want.Hash, d.Clock.Now()) == 0 {
		history.Past = apply.LastWrite{}
	}
	switch how.decideAction(want.Hash, history.Past, live) {
	case actionSkip:
		outcome.Presence = plan.PresenceYes
	case actionWait:
		outcome.Presence = plan.PresenceYes
		outcome.Problem = apply.ObjectProblem{
			Trouble: apply.TroubleGoing,
			Message: "The object was deleted and is waiting for its finalizers [" + strings.Join(known.Going.Finalizers, " ") +
				"]; it is recreated once it is gone.",
		}
	case actionBring:
		o.deliverWithinRoom(ctx, how)
	}
	o.reportUndeclared()
	outcome.Problem.Message = conditions.ShortenText(outcome.Problem.Message, apply.MessageBytesMax)
	if history.Damper.IsDamped() {
		outcome.Note = "Another client on the cluster keeps changing fields that this manifest sets; drift is corrected " +
			"at growing intervals. The object's metadata.managedFields show who."
	}
}

// reportUndeclared says what was left out of an object that is applied, and has it looked at
// when the whole manifest is sent again.
func (o *object) reportUndeclared() {
	undeclared := o.history.Undeclared
	if undeclared == nil || o.outcome.Problem.Trouble != apply.TroubleNone {
		return
	}
	o.outcome.Note = strings.TrimSpace(undeclaredNote(undeclared.Paths) + " " + noteOf(o.history))
	wait := max(undeclared.RetryDelay(o.want.Hash, o.Clock.Now()), time.Second)
	if o.outcome.Again == 0 || wait < o.outcome.Again {
		o.outcome.Again = wait
	}
}

// noteOf says what is special about an object that is as its manifest says.
func noteOf(history *plan.DeliveryHistory) string {
	return strings.Join(slices.DeleteFunc([]string{history.Adopted.AdoptionNote(), stuckNote(history.Stuck)}, func(note string) bool { return note == "" }), " ")
}

// scheduleResync has an object applied again once the time since it was written is over.
func (o *object) scheduleResync(every time.Duration) {
	o.outcome.Again = every
	if o.Clock.Since(o.history.At) >= every {
		o.history.Past = apply.LastWrite{}
	}
}
