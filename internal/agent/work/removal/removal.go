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

// Remover removes objects of one member.
type Remover struct {
	Inventory *inventory.Inventory
	Member    *apply.Member
	Kinds     *apply.Kinds
	Clock     clock.PassiveClock
	// Parallel is how many objects of a record are removed at a time.
	Parallel int
	// Leaving is told when all objects of a record begin to leave, and when the
	// record is gone.
	Leaving func(record types.UID, leaving bool)
}

// Job is what to remove.
type Job struct {
	// Record is whose objects these are.
	Record *ledger.Record
	// Fates says what is to become of each.
	Fates plan.Fates
	// Keeper takes the objects that move.
	Keeper *ledger.Record
	// Work is the work if it is being deleted: what its manifests name may be
	// there although no record has it.
	Work *workv1.ManifestWork
}

// Result is what came of a removal.
type Result struct {
	// Leftovers are objects that have to go and are still there; Gone are those
	// that are not.
	Leftovers []plan.Leftover
	Gone      map[apply.Object]bool
	// Undecided says that there are objects whose fate is not known yet.
	Undecided bool
	// Again is when to try again if nothing happens; zero is never.
	Again time.Duration
}

func (r *Result) again(after time.Duration) {
	if r.Again == 0 || after < r.Again {
		r.Again = after
	}
}

// Remove lets go of those objects of the record that are not kept. Rights go
// last: the agent, or who removes a finalizer, may need them for the others.
func (r *Remover) Remove(ctx context.Context, job Job) (Result, error) {
	leaving := r.sort(&job)
	result, err := r.removeFirst(ctx, leaving)
	if err != nil {
		return result, err
	}
	return result, r.removeLast(ctx, &job, leaving, &result)
}

// removeFirst lets go of all but rights.
func (r *Remover) removeFirst(ctx context.Context, leaving departures) (Result, error) {
	result := Result{Gone: map[apply.Object]bool{}, Undecided: leaving.undecided}
	return result, r.letGoAll(ctx, leaving.first, &result)
}

// removeLast lets go of the rights once everything else is seen to be gone, and
// completes the result. The record forgets before what is gone: without the
// rights, nobody might be able to see that any more.
func (r *Remover) removeLast(ctx context.Context, job *Job, leaving departures, result *Result) error {
	switch {
	case len(leaving.last) == 0 || len(result.Leftovers) > 0:
	case job.Record.Pending():
		result.again(lookAgain)
	default:
		if err := ledger.Unlist(ctx, job.Record, func(object apply.Object) bool { return leaves(job.Fates(object)) && !isRight(object) }); err != nil {
			return err
		}
		if err := r.letGoAll(ctx, leaving.last, result); err != nil {
			return err
		}
	}
	r.finish(job, result)
	return ctx.Err()
}

// leaves tells whether the fate is to be no object of the record any more.
func leaves(end plan.Fate) bool { return end != plan.FateKeep && end != plan.FateUnknown }

// isRight tells whether the object gives rights.
func isRight(object apply.Object) bool { return object.Group == rbacv1.GroupName }

// departures are the objects of a job that do not stay.
type departures struct {
	first, last []departure
	// undecided says that there are objects whose fate is not known yet.
	undecided bool
}

// sort returns the objects that do not stay, in the order in which they go.
func (r *Remover) sort(job *Job) departures {
	var sorted departures
	for object, candidate := range r.candidates(job) {
		end := job.Fates(object)
		one := departure{Remover: r, job: job, candidate: candidate, end: end, left: plan.Leftover{Object: object}}
		switch {
		case end == plan.FateUnknown:
			sorted.undecided = true
		case !leaves(end):
		case end == plan.FateDelete && isRight(object):
			sorted.last = append(sorted.last, one)
		default:
			sorted.first = append(sorted.first, one)
		}
	}
	return sorted
}

// letGoAll lets go of objects in parallel.
func (r *Remover) letGoAll(ctx context.Context, leaving []departure, result *Result) error {
	var mu sync.Mutex
	group := taskgroup.New(r.Parallel)
	for i := range leaving {
		one := &leaving[i]
		object := one.left.Object
		group.Go(func() error {
			gone := one.letGo(ctx)
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

// finish sorts what is left, and says when to look at it again.
func (r *Remover) finish(job *Job, result *Result) {
	left := make(map[apply.Object]bool, len(result.Leftovers))
	for i := range result.Leftovers {
		left[result.Leftovers[i].Object] = true
	}
	job.Record.Requests().Keep(func(object apply.Object) bool { return left[object] })
	slices.SortFunc(result.Leftovers, func(a, b plan.Leftover) int { return strings.Compare(a.Object.String(), b.Object.String()) })
	for i := range result.Leftovers {
		left := &result.Leftovers[i]
		if left.Problem.Trouble != apply.TroubleNone {
			result.again(refusedRetry)
		} else {
			result.again(lookAgain)
		}
		if _, known := r.Inventory.Get(left.Object); !known {
			result.again(goneCheck)
		}
	}
}

// TakeDown lets go of all objects of the record, then of the record itself.
// It tells whether nothing is left.
func (r *Remover) TakeDown(ctx context.Context, job Job) (result Result, done bool, err error) {
	record := job.Record
	if err := record.Adopt(ctx); err != nil {
		return result, false, err
	}
	record.Watch(ledger.TypesOf(record.Object()))
	leaving := r.sort(&job)
	// Of objects that all go at once only the last one is of interest.
	r.Leaving(record.UID(), len(leaving.last) == 0 || len(leaving.first) == 0)
	group := taskgroup.New(2)
	group.Go(func() error { return record.Delete(ctx) })
	group.Go(func() (err error) { result, err = r.removeFirst(ctx, leaving); return err })
	if err := group.Wait(); err != nil {
		return result, false, err
	}
	if err := r.removeLast(ctx, &job, leaving, &result); err != nil {
		return result, false, err
	}
	switch {
	case record.Pending():
		result.again(lookAgain)
		return result, false, nil
	case len(result.Leftovers) > 0 || result.Undecided || r.Inventory.Owns(record.UID()) > 0:
		return result, false, nil
	}
	uid := record.UID()
	if err := record.Drop(ctx); err != nil {
		return result, false, err
	}
	r.Leaving(uid, false)
	return result, true, nil
}

// Empty moves all objects of a record that someone deleted to the keeper, and
// lets the record go. It tells whether that is done.
func (r *Remover) Empty(ctx context.Context, record, keeper *ledger.Record) (result Result, done bool, err error) {
	record.Watch(ledger.TypesOf(record.Object()))
	result, err = r.Remove(ctx, Job{
		Record: record, Keeper: keeper, Fates: func(apply.Object) plan.Fate { return plan.FateMove },
	})
	if err != nil {
		return result, false, err
	}
	if len(result.Leftovers) > 0 || record.Pending() || r.Inventory.Owns(record.UID()) > 0 {
		result.again(lookAgain)
		return result, false, nil
	}
	return result, true, record.Drop(ctx)
}

// candidate is an object that the record may own. It is guessed if only the
// manifests of the work say so.
type candidate struct {
	version string
	guessed bool
}

// candidates returns the objects that the record owns: what the inventory
// knows, and of the types that it cannot watch what the record says.
func (r *Remover) candidates(job *Job) map[apply.Object]candidate {
	owned := map[apply.Object]candidate{}
	for _, object := range r.Inventory.OwnedBy(job.Record.UID()) {
		if live, _ := r.Inventory.Get(object); live != nil {
			owned[object] = candidate{version: live.Version}
		}
	}
	listed := job.Record.Object().Status.AppliedResources
	for i := range listed {
		if ledger.Blind(r.Inventory, ledger.GroupResource(&listed[i])) {
			owned[ledger.ObjectOf(&listed[i])] = candidate{version: listed[i].Version}
		}
	}
	if job.Work == nil {
		return owned
	}
	// An agent may have stopped before it listed what it applied.
	for _, object := range plan.Objects(job.Work, r.Kinds.Find) {
		if !ledger.Blind(r.Inventory, schema.GroupResource{Group: object.Group, Resource: object.Resource}) {
			continue
		}
		if _, known := owned[object.Object]; !known {
			owned[object.Object] = candidate{version: object.Version, guessed: true}
		}
	}
	return owned
}
