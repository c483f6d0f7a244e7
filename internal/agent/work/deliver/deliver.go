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
		if it.Refused != nil || !it.Resolved {
			continue
		}
		if problem, ok := noRoom[it]; ok {
			it.Outcome.Problem = problem
			continue
		}
		group.Go(func() error { d.deliverItem(ctx, it); return nil })
	}
	return group.Wait()
}

// ChangedSince reports whether the object of an item is not the one any more that
// the pass met.
func (d *Delivery) ChangedSince(it *plan.ManifestItem) bool {
	live, _ := d.liveState(it)
	return live.Mark != it.Outcome.Met
}

// liveState returns what the inventory knows of the item's object.
func (d *Delivery) liveState(it *plan.ManifestItem) (apply.LiveState, *inventory.ObjectRecord) {
	known, ok := d.Inventory.Get(it.Object)
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

// deliverItem decides what to do for one item and does it.
func (d *Delivery) deliverItem(ctx context.Context, it *plan.ManifestItem) {
	how := strategyOf(it)
	it.Outcome.Note = cmp.Or(how.statusNote(), noteOf(it))
	live, known := d.liveState(it)
	it.Outcome.Met = live.Mark
	o := &object{Delivery: d, item: it, known: known}
	if d.Plan.IsComplete(d.Work, it) && (live.Owned || !live.Known || !live.Exists) {
		o.resolvePresence(ctx, live)
		return
	}
	if ledger.IsBlindType(d.Inventory, it.Resource.GroupResource()) {
		it.Outcome.Note = "The agent may not list and watch " + it.Resource.GroupResource().String() +
			", so drift is corrected only every " + unseenResync.String() + "."
		d.scheduleResync(it, unseenResync)
	}
	if _, applies := how.(applier); !applies { // nothing is left out any more
		it.Undeclared = nil
	}
	if it.Undeclared != nil && it.Undeclared.RetryDelay(it.Hash, d.Clock.Now()) == 0 {
		it.Past = apply.LastWrite{}
	}
	switch how.decideAction(it.Hash, it.Past, live) {
	case actionSkip:
		it.Outcome.Presence = plan.PresenceYes
	case actionWait:
		it.Outcome.Presence = plan.PresenceYes
		it.Outcome.Problem = apply.ObjectProblem{
			Trouble: apply.TroubleGoing,
			Message: "The object was deleted and is waiting for its finalizers [" + strings.Join(known.Going.Finalizers, " ") +
				"]; it is recreated once it is gone.",
		}
	case actionBring:
		how.deliverObject(ctx, o)
	}
	d.reportUndeclared(it)
	it.Outcome.Problem.Message = conditions.ShortenText(it.Outcome.Problem.Message, apply.MessageBytesMax)
	if it.Damper.IsDamped() {
		it.Outcome.Note = "Another client on the cluster keeps changing fields that this manifest sets; drift is corrected " +
			"at growing intervals. The object's metadata.managedFields show who."
	}
}

// reportUndeclared says what was left out of an object that is applied, and has it looked at
// when the whole manifest is sent again.
func (d *Delivery) reportUndeclared(it *plan.ManifestItem) {
	if it.Undeclared == nil || it.Outcome.Problem.Trouble != apply.TroubleNone {
		return
	}
	it.Outcome.Note = strings.TrimSpace(undeclaredNote(it.Undeclared.Paths) + " " + noteOf(it))
	wait := max(it.Undeclared.RetryDelay(it.Hash, d.Clock.Now()), time.Second)
	if it.Outcome.Again == 0 || wait < it.Outcome.Again {
		it.Outcome.Again = wait
	}
}

// noteOf says what is special about an object that is as its manifest says.
func noteOf(it *plan.ManifestItem) string {
	return strings.Join(slices.DeleteFunc([]string{it.Adopted.AdoptionNote(), stuckNote(it.Stuck)}, func(note string) bool { return note == "" }), " ")
}

// scheduleResync has an object applied again once the time since it was written is over.
func (d *Delivery) scheduleResync(it *plan.ManifestItem, every time.Duration) {
	it.Outcome.Again = every
	if d.Clock.Since(it.At) >= every {
		it.Past = apply.LastWrite{}
	}
}
