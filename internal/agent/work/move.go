// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/budget"
	"github.com/capstan-io/capstan/internal/conditions"
)

// A record that someone deletes although its work is there is made anew, and
// the objects stay: a second record, the keeper, owns them until they have been
// applied in the name of the new one. So there is no moment at which an object
// has no owner that exists, and none at which its type is not noted, and an
// agent that stops in between finds everything. docs/adr/0006 tells more.

// keeperPrefix begins the names of keepers. No record is called so: others
// begin with the hash of a hub.
const keeperPrefix = "moved-"

// keeperName returns the name of the keeper for a record. It has no room for
// the name of the record, which can be as long as names can be.
func keeperName(record string) string {
	sum := sha256.Sum256([]byte(record))
	return keeperPrefix + hex.EncodeToString(sum[:])
}

// isKeeper tells whether the record of the pass is a keeper for this hub.
func (p *pass) isKeeper() bool {
	return p.record != nil && p.record.Spec.HubHash == p.hubHash &&
		p.record.Name == keeperName(p.recordName(p.record.Spec.ManifestWorkName))
}

// requestOf returns what to look at when a record changed.
func (s *site) requestOf(record *workv1.AppliedManifestWork) Request {
	p := &pass{site: s, record: record, budget: budget.New(s.options.Clock)}
	if p.isKeeper() {
		return Request{Cluster: s.connection.Name, Work: record.Spec.ManifestWorkName}
	}
	return s.request(record.Name)
}

// openKeeper finds the keeper, if there is one.
func (p *pass) openKeeper(ctx context.Context) error {
	st := p.state.keeper
	if st == nil {
		st = &state{}
	}
	keeper, cached, err := p.readRecord(ctx, st, keeperName(p.recordName(p.name)))
	if err != nil {
		return err
	}
	p.keeper = keeper
	p.state.keeper = nil
	if keeper != nil || cached {
		p.state.keeper = st
	}
	return nil
}

// ofKeeper is the pass over the keeper, whose record is nil if there is none.
func (p *pass) ofKeeper() *pass {
	keeper := *p
	keeper.record, keeper.keeper, keeper.state = p.keeper, nil, p.state.keeper
	keeper.leftovers, keeper.gone, keeper.held, keeper.again = nil, nil, false, 0
	return &keeper
}

// renew moves the objects of a record that someone deleted to the keeper, and
// lets the record go. The next pass makes a new one.
func (p *pass) renew(ctx context.Context) error {
	if _, ours := p.record.Annotations[workv1.AnnotationResourceTypes]; !ours {
		if err := p.adopt(ctx); err != nil {
			return err
		}
	}
	if err := p.noteInKeeper(ctx); err != nil {
		return err
	}
	p.watch(typesOf(p.record))
	if err := p.removeAll(ctx, func(apply.Object) fate { return fateMove }); err != nil {
		return err
	}
	if len(p.leftovers) > 0 || p.pending() || p.inventory.Owns(p.record.UID) > 0 {
		p.comeBack(requestAgain) // the inventory tells earlier
		return p.reportMove(ctx)
	}
	if err := p.dropRecord(ctx); err != nil {
		return err
	}
	p.state.plan = nil
	p.comeBack(conflictRetry)
	return nil
}

// noteInKeeper makes sure that there is a keeper, which has the types of the
// record, and that these are watched for it.
func (p *pass) noteInKeeper(ctx context.Context) error {
	types := typesOf(p.record)
	if p.keeper == nil {
		keeper, err := p.createRecord(ctx, keeperName(p.recordName(p.name)), types)
		if err != nil {
			return err
		}
		p.keeper = keeper
		p.state.keeper = &state{}
		p.state.keeper.record.Store(keeper)
	}
	keeper := p.ofKeeper()
	noted := typesOf(p.keeper)
	all := sortResources(slices.Concat(noted, types))
	if len(all) > len(noted) {
		if err := keeper.patchRecord(ctx, all); err != nil {
			return err
		}
		p.keeper = keeper.record
	}
	// What cannot be watched is known from here only.
	if listed := keeper.record.Status.AppliedResources; len(listed) == 0 && len(p.record.Status.AppliedResources) > 0 {
		after := keeper.record.DeepCopy()
		after.Status.AppliedResources = p.record.Status.AppliedResources
		if err := conditions.PatchStatus(ctx, p.connection.Spoke.GetClient(), keeper.record, after); err != nil {
			return fmt.Errorf("listing objects in appliedmanifestwork %q: %w", after.Name, err)
		}
		keeper.setRecord(after)
		p.keeper = after
	}
	keeper.watch(all)
	return nil
}

// settle ends what the keeper has of the objects that the record owns again,
// removes what the work does not want, and in the end the keeper.
func (p *pass) settle(ctx context.Context) error {
	if p.keeper == nil {
		return nil
	}
	planned := p.planned()
	applied := map[apply.Object]bool{}
	for _, it := range p.plan.items {
		if it.resolved && it.outcome.problem.Trouble == apply.TroubleNone && it.past.Mark.UID != "" {
			applied[it.object] = true
		}
	}
	keeper := p.ofKeeper()
	_, err := keeper.takeDown(ctx, func(object apply.Object) fate {
		end := planned(object)
		if end != fateKeep {
			return end
		}
		record, known := p.inventory.Get(object)
		switch {
		case record != nil && slices.Contains(record.OwnerUIDs(), p.record.UID), !known && applied[object]:
			return fateOrphan // by the keeper: the record has it
		case !known:
			keeper.held = true
		}
		return fateKeep
	})
	p.leftovers = append(p.leftovers, keeper.leftovers...)
	p.comeBack(keeper.again)
	return err
}

// reportMove says why objects cannot be moved, if it is not a matter of time.
func (p *pass) reportMove(ctx context.Context) error {
	if !slices.ContainsFunc(p.leftovers, func(l leftover) bool { return l.problem.Trouble != apply.TroubleNone }) {
		return nil
	}
	conditions.Set(&p.work.Status.Conditions, p.work.Generation, metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionFalse,
		Reason: workv1.ManifestWorkReasonAppliedManifestWorkFailed,
		Message: fmt.Sprintf("Someone deleted AppliedManifestWork %q on the cluster. It is made again when its objects have been "+
			"moved, which these cannot be: %s", p.record.Name, describe(p.leftovers)),
	})
	return p.writeStatus(ctx)
}
