// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
)

const (
	// blindResync is how often an object is applied again whose type the agent
	// may not watch.
	blindResync = 5 * time.Minute
	// refusedRetry is how often an object is tried again that the member refused:
	// what has to be mended is there, and nothing may tell.
	refusedRetry = 30 * time.Second
)

// apply brings the objects to the member, class by class. What became of each
// is in its outcome; only a record that cannot be written is an error.
func (p *pass) apply(ctx context.Context) error {
	for i, wave := range p.plan.waves {
		if i > 0 {
			// An earlier wave may have brought the definitions of this one's kinds.
			p.resolve(wave)
			p.refuseTwins()
			if err := p.note(ctx); err != nil {
				return err
			}
		}
		p.hold()
		if err := p.writeAll(ctx, wave); err != nil {
			return err
		}
		if p.state.deleting.Load() {
			return errDeleted
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	p.retries() //nolint:contextcheck // what it waits for is watched for longer than the pass
	return nil
}

// writeAll brings the items of a wave to the member. If the work is deleted
// meanwhile, requests that are under way are cut off, as they may hang: what
// they bring all the same is owned by the record, and found or collected.
func (p *pass) writeAll(ctx context.Context, wave []*item) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.state.interrupt.Store(&cancel)
	defer p.state.interrupt.Store(nil)
	var group errgroup.Group
	group.SetLimit(writesPerWork)
	for _, it := range wave {
		if p.state.deleting.Load() {
			break
		}
		if it.refused == nil && it.resolved {
			group.Go(func() error { p.write(ctx, it); return nil })
		}
	}
	return group.Wait()
}

// write decides what to do for one item and does it.
func (p *pass) write(ctx context.Context, it *item) {
	if _, ok := p.crowded[it]; ok {
		it.outcome.problem = p.crowding(it)
		return
	}
	live, record := p.live(it)
	it.outcome.met = live.Mark
	if p.isComplete(it) && (live.Owned || !live.Known || !live.Exists) {
		p.leave(ctx, it, live)
		return
	}
	if p.unseen(it) {
		it.outcome.note = "The agent may not list and watch " + it.resource.GroupResource().String() +
			", so changes on the cluster are undone only every " + blindResync.String() + "."
		it.outcome.again = blindResync
		if p.options.Clock.Since(it.at) >= blindResync {
			it.past = apply.Past{}
		}
	}
	switch apply.Decide(it.strategy, it.hash, it.past, live) {
	case apply.ActionSkip:
		it.outcome.presence = presenceYes
	case apply.ActionRead:
		if p.permitted(ctx, it) {
			p.look(ctx, it)
		}
	case apply.ActionWait:
		it.outcome.presence = presenceYes
		it.outcome.problem = apply.Problem{
			Trouble: apply.TroubleGoing,
			Message: "Someone deleted the object, and it waits for its finalizers [" + strings.Join(record.Going.Finalizers, " ") +
				"]; it is created again when it is gone.",
		}
	case apply.ActionCreate:
		if p.permitted(ctx, it) {
			p.create(ctx, it)
		}
	case apply.ActionApply:
		p.restore(ctx, it, record)
	}
	if it.damper.Damped() {
		it.outcome.note = "Something on the cluster keeps changing fields that this manifest sets; they are restored " +
			"at growing intervals. The object's metadata.managedFields tell who it is."
	}
}

// unseen tells whether the agent may not list and watch objects of this type.
func (p *pass) unseen(it *item) bool {
	err := p.inventory.State(it.resource.GroupResource())
	return err != nil && !errors.Is(err, inventory.ErrPending)
}

// live returns what the inventory knows of the item's object.
func (p *pass) live(it *item) (apply.Live, *inventory.Record) {
	record, known := p.inventory.Get(it.object)
	live := apply.Live{Known: known}
	if record != nil {
		live.Exists, live.Deleting, live.Mark = true, record.Going != nil, record.Mark
		live.Owned = slices.Contains(record.OwnerUIDs(), p.record.UID)
	}
	return live, record
}

// restore applies an item. Corrections of what someone else changed are
// slowed down if they do not last.
func (p *pass) restore(ctx context.Context, it *item, record *inventory.Record) {
	correction := it.past.Hash == it.hash && it.past.Mark.UID != ""
	if correction {
		if wait := it.damper.Wait(p.options.Clock.Now()); wait > 0 {
			it.outcome.presence = presenceYes
			it.outcome.again = wait
			return
		}
	}
	if !p.permitted(ctx, it) {
		return
	}
	before := ""
	if record != nil {
		before = record.ResourceVersion
	}
	written, err := p.send(ctx, it, record)
	if err != nil {
		p.failed(ctx, it, err)
		return
	}
	if correction && written.ResourceVersion != before {
		it.damper = it.damper.Corrected(p.options.Clock.Now())
	}
}

// look finds out whether an object that is not to be written exists.
func (p *pass) look(ctx context.Context, it *item) {
	it.outcome.note = "The object is only read, as updateStrategy ReadOnly says."
	if it.observation != nil {
		return // it is read whole later
	}
	it.outcome.again = p.options.StatusSyncInterval
	switch _, err := p.member.Get(ctx, it.resource.Version, it.object); {
	case apierrors.IsNotFound(err):
		it.outcome.presence = presenceNo
	case err != nil:
		it.outcome.problem = apply.Explain(err, "get", it.object)
	default:
		it.outcome.presence = presenceYes
	}
}

// wrote remembers what the server answered to a write.
func (p *pass) wrote(it *item, written *metav1.PartialObjectMetadata) {
	it.past = apply.Past{Hash: it.hash, Mark: apply.MarkOf(written)}
	it.at = p.options.Clock.Now()
	it.outcome.presence = presenceYes
	p.inventory.Saw(it.object, written, p.record.UID)
}

// failed notes an error, and finds out whether the object exists all the same.
func (p *pass) failed(ctx context.Context, it *item, err error) {
	if p.denied(ctx, it, err) {
		return
	}
	it.past = apply.Past{}
	it.outcome.problem = apply.Explain(err, "patch", it.object)
	if d := (*disagreement)(nil); errors.As(err, &d) {
		it.outcome.problem.Message = d.explain(it.outcome.problem.Message)
	}
	if it.outcome.problem.NoKind {
		p.kinds.Forget(it.resource.GroupVersion())
		it.resolved = false
		return
	}
	switch record, known := p.inventory.Get(it.object); {
	case it.outcome.problem.Trouble == apply.TroubleConflict, record != nil:
		it.outcome.presence = presenceYes
		return
	case known && it.outcome.problem.Trouble == apply.TroublePassing:
		it.outcome.presence = presenceNo
		return
	}
	p.findOut(ctx, it)
}

// findOut asks the server whether the item's object exists.
func (p *pass) findOut(ctx context.Context, it *item) {
	switch _, err := p.member.Get(ctx, it.resource.Version, it.object); {
	case apierrors.IsNotFound(err):
		it.outcome.presence = presenceNo
	case err == nil:
		it.outcome.presence = presenceYes
	}
}

// retries decides when to come back for what did not succeed.
func (p *pass) retries() {
	passing := false
	for _, it := range p.plan.items {
		p.comeBack(it.outcome.again)
		if it.refused != nil {
			continue // until the work changes
		}
		if it.outcome.denied {
			continue // in its own time
		}
		switch it.outcome.problem.Trouble {
		case apply.TroubleNone:
		case apply.TroublePassing, apply.TroubleRaced:
			passing = true
		case apply.TroubleConflict:
			p.await(p.name, it.object)
			p.comeBack(refusedRetry)
			if live, _ := p.live(it); live.Mark != it.outcome.met {
				p.comeBack(conflictRetry) // it changed before we awaited that
			}
		default:
			p.comeBack(refusedRetry)
		}
	}
	what, _ := p.lacks()
	if p.arrivals.wait(p.name, what) {
		p.state.failures = 0
	}
	p.retryDenied()
	if !passing {
		p.state.failures, p.state.lackingSince = 0, time.Time{}
		return
	}
	if p.state.lackingSince.IsZero() {
		p.state.lackingSince = p.options.Clock.Now()
	}
	p.comeBack(p.lull())
	p.comeBack(min(failureBackoffMin<<min(p.state.failures, 16), failureBackoffMax))
	p.state.failures++
}
