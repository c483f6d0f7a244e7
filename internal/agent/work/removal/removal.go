// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/server/taskgroup"
)

const (
	// lookAgain is when to look again at what is on its way out; the inventory
	// tells earlier.
	lookAgain = 10 * time.Second
	// goneCheck is how often it is looked whether an object is gone whose type
	// cannot be watched.
	goneCheck = 2 * time.Second
	// refusedRetry is how often it is tried again what the member refused.
	refusedRetry = 30 * time.Second
)

// ObjectRemover removes objects of one member.
type ObjectRemover struct {
	Inventory *inventory.Inventory
	Member    *apply.Member
	Kinds     *apply.KindResolver
	Clock     clock.PassiveClock
	// Parallel is how many objects of a record are removed at a time.
	Parallel int
	// Leaving is told when all objects of a record begin to leave, and when the
	// record is gone.
	Leaving func(record types.UID, leaving bool)
}

// RemoveJob is what to remove.
type RemoveJob struct {
	// Record is whose objects these are.
	Record *ledger.AppliedRecord
	// Fates says what is to become of each.
	Fates plan.Fates
	// Keeper takes the objects that move.
	Keeper *ledger.AppliedRecord
	// Work is the work if it is being deleted: what its manifests name may be
	// there although no record has it.
	Work *workv1.ManifestWork
}

// RemoveResult is what came of a removal.
type RemoveResult struct {
	// Leftovers are objects that have to go and are still there; Gone are those
	// that are not.
	Leftovers []plan.Leftover
	Gone      map[apply.ObjectRef]bool
	// Undecided says that there are objects whose fate is not known yet.
	Undecided bool
	// Again is when to try again if nothing happens; zero is never.
	Again time.Duration
}

func (r *RemoveResult) retryAfter(after time.Duration) {
	if r.Again == 0 || after < r.Again {
		r.Again = after
	}
}

// RemoveObjects lets go of those objects of the record that are not kept. Rights go
// last: the agent, or who removes a finalizer, may need them for the others.
func (r *ObjectRemover) RemoveObjects(ctx context.Context, job RemoveJob) (RemoveResult, error) {
	leaving := r.sortDepartures(&job)
	result, err := r.removeFirst(ctx, leaving)
	if err != nil {
		return result, err
	}
	return result, r.removeLast(ctx, &job, leaving, &result)
}

// removeFirst lets go of all but rights.
func (r *ObjectRemover) removeFirst(ctx context.Context, leaving departures) (RemoveResult, error) {
	result := RemoveResult{Gone: map[apply.ObjectRef]bool{}, Undecided: leaving.undecided}
	return result, r.releaseAll(ctx, leaving.first, &result)
}

// removeLast lets go of the rights once everything else is seen to be gone, and
// completes the result. The record forgets before what is gone: without the
// rights, nobody might be able to see that any more.
func (r *ObjectRemover) removeLast(ctx context.Context, job *RemoveJob, leaving departures, result *RemoveResult) error {
	switch {
	case len(leaving.last) == 0 || len(result.Leftovers) > 0:
	case job.Record.IsPending():
		result.retryAfter(lookAgain)
	default:
		if err := ledger.UnlistGone(ctx, job.Record, func(object apply.ObjectRef) bool { return isLeaving(job.Fates(object)) && !isRight(object) }); err != nil {
			return err
		}
		if err := r.releaseAll(ctx, leaving.last, result); err != nil {
			return err
		}
	}
	r.finishResult(job, result)
	return ctx.Err()
}

// isLeaving reports whether the fate is to be no object of the record any more.
func isLeaving(end plan.Fate) bool { return end != plan.FateKeep && end != plan.FateUnknown }

// isRight reports whether the object gives rights.
func isRight(object apply.ObjectRef) bool { return object.Group == rbacv1.GroupName }

// departures are the objects of a job that do not stay.
type departures struct {
	first, last []departure
	// undecided says that there are objects whose fate is not known yet.
	undecided bool
}

// sortDepartures returns the objects that do not stay, in the order in which they go.
func (r *ObjectRemover) sortDepartures(job *RemoveJob) departures {
	var sorted departures
	for object, candidate := range r.ownedCandidates(job) {
		end := job.Fates(object)
		one := departure{ObjectRemover: r, job: job, candidate: candidate, end: end, left: plan.Leftover{Object: object}}
		switch {
		case end == plan.FateUnknown:
			sorted.undecided = true
		case !isLeaving(end):
		case end == plan.FateDelete && isRight(object):
			sorted.last = append(sorted.last, one)
		default:
			sorted.first = append(sorted.first, one)
		}
	}
	return sorted
}

// releaseAll lets go of objects in parallel.
func (r *ObjectRemover) releaseAll(ctx context.Context, leaving []departure, result *RemoveResult) error {
	var mu sync.Mutex
	group := taskgroup.NewLimitedGroup(r.Parallel)
	for i := range leaving {
		one := &leaving[i]
		object := one.left.Object
		group.Go(func() error {
			gone := one.releaseObject(ctx)
			if one.candidate.guessed && one.left.Problem.Trouble == apply.TroubleForbidden {
				gone = true // what we may not even look at, we did not make
			}
			mu.Lock()
			defer mu.Unlock()
			if gone {
				result.Gone[object] = true
				return nil
			}
			if live, _ := r.Inventory.Get(object); live != nil && live.Going != nil {
				one.left.Finalizers = live.Going.Finalizers
				one.left.Since = live.Going.Since
			}
			result.Leftovers = append(result.Leftovers, one.left)
			return nil
		})
	}
	return group.Wait()
}

// finishResult sorts what is left, and says when to look at it again.
func (r *ObjectRemover) finishResult(job *RemoveJob, result *RemoveResult) {
	left := make(map[apply.ObjectRef]bool, len(result.Leftovers))
	for i := range result.Leftovers {
		left[result.Leftovers[i].Object] = true
	}
	job.Record.DeletionRequests().RetainOnly(func(object apply.ObjectRef) bool { return left[object] })
	slices.SortFunc(result.Leftovers, func(a, b plan.Leftover) int { return strings.Compare(a.Object.String(), b.Object.String()) })
	for i := range result.Leftovers {
		left := &result.Leftovers[i]
		if left.Problem.Trouble != apply.TroubleNone {
			result.retryAfter(refusedRetry)
		} else {
			result.retryAfter(lookAgain)
		}
		if _, known := r.Inventory.Get(left.Object); !known {
			result.retryAfter(goneCheck)
		}
	}
}

// TakeDown lets go of all objects of the record, then of the record itself.
// It reports whether nothing is left.
func (r *ObjectRemover) TakeDown(ctx context.Context, job RemoveJob) (result RemoveResult, done bool, err error) {
	record := job.Record
	if err := record.AdoptObjects(ctx); err != nil {
		return result, false, err
	}
	record.WatchTypes(ledger.TypesOf(record.Object()))
	leaving := r.sortDepartures(&job)
	// Of objects that all go at once only the last one is of interest.
	r.Leaving(record.UID(), len(leaving.last) == 0 || len(leaving.first) == 0)
	group := taskgroup.NewLimitedGroup(2)
	group.Go(func() error { return record.DeleteRecord(ctx) })
	group.Go(func() (err error) { result, err = r.removeFirst(ctx, leaving); return err })
	if err := group.Wait(); err != nil {
		return result, false, err
	}
	if err := r.removeLast(ctx, &job, leaving, &result); err != nil {
		return result, false, err
	}
	switch {
	case record.IsPending():
		result.retryAfter(lookAgain)
		return result, false, nil
	case len(result.Leftovers) > 0 || result.Undecided || r.Inventory.CountOwned(record.UID()) > 0:
		return result, false, nil
	}
	uid := record.UID()
	if err := record.RemoveFinalizer(ctx); err != nil {
		return result, false, err
	}
	r.Leaving(uid, false)
	return result, true, nil
}

// MoveToKeeper moves all objects of a record that someone deleted to the keeper, and
// lets the record go. It reports whether that is done.
func (r *ObjectRemover) MoveToKeeper(ctx context.Context, record, keeper *ledger.AppliedRecord) (result RemoveResult, done bool, err error) {
	record.WatchTypes(ledger.TypesOf(record.Object()))
	result, err = r.RemoveObjects(ctx, RemoveJob{
		Record: record, Keeper: keeper, Fates: func(apply.ObjectRef) plan.Fate { return plan.FateMove },
	})
	if err != nil {
		return result, false, err
	}
	if len(result.Leftovers) > 0 || record.IsPending() || r.Inventory.CountOwned(record.UID()) > 0 {
		result.retryAfter(lookAgain)
		return result, false, nil
	}
	return result, true, record.RemoveFinalizer(ctx)
}

// removalCandidate is an object that the record may own. It is guessed if only the
// manifests of the work say so.
type removalCandidate struct {
	version string
	guessed bool
}

// ownedCandidates returns the objects that the record owns: what the inventory
// knows, and of the types that it cannot watch what the record says.
func (r *ObjectRemover) ownedCandidates(job *RemoveJob) map[apply.ObjectRef]removalCandidate {
	owned := map[apply.ObjectRef]removalCandidate{}
	for _, object := range r.Inventory.OwnedBy(job.Record.UID()) {
		if live, _ := r.Inventory.Get(object); live != nil {
			owned[object] = removalCandidate{version: live.Version}
		}
	}
	listed := job.Record.Object().Status.AppliedResources
	for i := range listed {
		if ledger.IsBlindType(r.Inventory, ledger.GroupResource(&listed[i])) {
			owned[ledger.ObjectOf(&listed[i])] = removalCandidate{version: listed[i].Version}
		}
	}
	if job.Work == nil {
		return owned
	}
	// An agent may have stopped before it listed what it applied.
	for _, object := range plan.ManifestObjects(job.Work, r.Kinds.FindResource) {
		if !ledger.IsBlindType(r.Inventory, schema.GroupResource{Group: object.Group, Resource: object.Resource}) {
			continue
		}
		if _, known := owned[object.ObjectRef]; !known {
			owned[object.ObjectRef] = removalCandidate{version: object.Version, guessed: true}
		}
	}
	return owned
}
