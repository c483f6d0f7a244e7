// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
)

const (
	// requestAgain is after how long an object is asked again to go that shows
	// no sign of it.
	requestAgain = 10 * time.Second
	// goneCheck is how often it is looked whether an object is gone whose type
	// cannot be watched.
	goneCheck = 2 * time.Second
	// letGoAttempts is how often an object is looked at anew that changes all the while.
	letGoAttempts = 5
)

// fate is what is to become of an object that the work owns.
type fate uint8

const (
	fateKeep fate = iota
	fateDelete
	fateOrphan // it stays, and is not ours any more
	fateMove   // it stays, and belongs to the keeper
)

// leftover is an object that has to go and is still there.
type leftover struct {
	object  apply.Object
	problem apply.Problem
	// The following are of an object that is being deleted: what keeps it, and
	// since when, in seconds since 1970.
	finalizers []string
	since      int64
}

// prune lets go of the objects that the work does not have any more.
func (p *pass) prune(ctx context.Context) error {
	return p.removeAll(ctx, p.planned())
}

// planned tells what the plan says about objects that the work had.
func (p *pass) planned() func(apply.Object) fate {
	fates := map[apply.Object]fate{}
	unknown := map[string]bool{} // groups with kinds whose objects cannot be told from others
	for _, it := range p.plan.items {
		switch {
		case !it.resolved && it.manifest.Kind.Kind != "":
			unknown[it.manifest.Kind.Group] = true
		case it.strategy == apply.StrategyReadOnly:
			fates[it.object] = fateOrphan
		default:
			fates[it.object] = fateKeep
		}
	}
	return func(object apply.Object) fate {
		if f, wanted := fates[object]; wanted {
			return f
		}
		if unknown[object.Group] {
			return fateKeep
		}
		return fateDelete
	}
}

// removeAll lets go of those objects of the record that are not kept, in
// parallel. Those that are still there are the leftovers of the pass.
func (p *pass) removeAll(ctx context.Context, fateOf func(apply.Object) fate) error {
	var mu sync.Mutex
	p.leftovers, p.gone = nil, map[apply.Object]bool{}
	var group errgroup.Group
	group.SetLimit(writesPerMember)
	for object, candidate := range p.owned() {
		end := fateOf(object)
		if end == fateKeep {
			continue
		}
		group.Go(func() error {
			left := leftover{object: object}
			gone := p.letGo(ctx, &left, candidate.version, end)
			if candidate.guessed && left.problem.Trouble == apply.TroubleForbidden {
				gone = true // what we may not even look at, we did not make
			}
			mu.Lock()
			defer mu.Unlock()
			if gone {
				p.gone[object] = true
				return nil
			}
			if record, _ := p.inventory.Get(object); record != nil && record.Going != nil {
				left.finalizers, left.since = record.Going.Finalizers, record.Going.Since
			}
			p.leftovers = append(p.leftovers, left)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.mu.Lock()
	maps.DeleteFunc(p.state.requested, func(object apply.Object, _ time.Time) bool {
		return object.Name != "" && !slices.ContainsFunc(p.leftovers, func(l leftover) bool { return l.object == object })
	})
	p.mu.Unlock()
	slices.SortFunc(p.leftovers, func(a, b leftover) int { return strings.Compare(a.object.String(), b.object.String()) })
	for _, left := range p.leftovers {
		if left.problem.Trouble != apply.TroubleNone {
			p.comeBack(refusedRetry)
		} else {
			p.comeBack(requestAgain)
		}
		if _, known := p.inventory.Get(left.object); !known {
			p.comeBack(goneCheck)
		}
	}
	return ctx.Err()
}

// candidate is an object that the record may own. It is guessed if only the
// manifests of the work say so.
type candidate struct {
	version string
	guessed bool
}

// owned returns the objects that the record owns: what the inventory knows,
// and of the types that it cannot watch what the record says.
func (p *pass) owned() map[apply.Object]candidate {
	owned := map[apply.Object]candidate{}
	for _, object := range p.inventory.OwnedBy(p.record.UID) {
		if record, _ := p.inventory.Get(object); record != nil {
			owned[object] = candidate{version: record.Version}
		}
	}
	for i := range p.record.Status.AppliedResources {
		r := &p.record.Status.AppliedResources[i]
		if err := p.inventory.State(groupResource(r)); err != nil && !errors.Is(err, inventory.ErrPending) {
			owned[objectOf(r)] = candidate{version: r.Version}
		}
	}
	if p.stored == nil || p.stored.DeletionTimestamp == nil {
		return owned
	}
	// An agent may have stopped before it listed what it applied.
	for _, it := range newPlan(p.stored, nil).items {
		resource, err := p.kinds.Find(it.manifest.Kind)
		if it.refused != nil || err != nil {
			continue
		}
		it.resolve(resource, nil)
		if err := p.inventory.State(it.resource.GroupResource()); it.refused == nil && err != nil && !errors.Is(err, inventory.ErrPending) {
			if _, known := owned[it.object]; !known {
				owned[it.object] = candidate{version: it.resource.Version, guessed: true}
			}
		}
	}
	return owned
}

// letGo deletes an object that only the record owns, unless it is to stay, and
// ends the share of the record in others. It tells whether nothing is left to be
// done; the problem says why not, if it is not only a matter of time.
func (p *pass) letGo(ctx context.Context, left *leftover, version string, end fate) (gone bool) {
	object := left.object
	record, _ := p.inventory.Get(object)
	if record != nil && end == fateDelete && apply.ClaimOf(p.record.UID, record.OwnerUIDs()) == apply.ClaimSole {
		if record.Going != nil || p.wasRequested(object) {
			return false
		}
		switch err := p.member.Delete(ctx, version, object, record.Mark.UID, record.ResourceVersion); {
		case err == nil:
			p.setRequested(object)
			return false // until the watch says so
		case apierrors.IsNotFound(err):
			return false
		case !apierrors.IsConflict(err):
			left.problem = apply.Explain(err, "delete", object)
			return false
		}
	}
	for range letGoAttempts {
		gone, err := p.letGoLive(ctx, left, version, end)
		if !apierrors.IsConflict(err) {
			verb := "patch"
			if end == fateDelete {
				verb = "delete"
			}
			left.problem = apply.Explain(err, verb, object)
			return gone && err == nil
		}
	}
	left.problem = apply.Problem{Trouble: apply.TroubleRaced, Message: "The object changes all the time."}
	return false
}

// letGoLive lets go of an object as it is on the server now.
func (p *pass) letGoLive(ctx context.Context, left *leftover, version string, end fate) (gone bool, err error) {
	object := left.object
	seen, err := p.member.Get(ctx, version, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var owners []inventory.Owner
	for i := range seen.OwnerReferences {
		if seen.OwnerReferences[i].Kind == workv1.KindAppliedManifestWork {
			owners = append(owners, inventory.Owner{UID: seen.OwnerReferences[i].UID})
		}
	}
	ours := slices.ContainsFunc(owners, func(o inventory.Owner) bool { return o.UID == p.record.UID })
	switch {
	case !ours:
		return true, nil
	case len(owners) == 1 && end == fateDelete:
		if seen.DeletionTimestamp == nil {
			return false, p.member.Delete(ctx, version, object, seen.UID, seen.ResourceVersion)
		}
		left.finalizers, left.since = seen.Finalizers, seen.DeletionTimestamp.Unix()
		return false, nil
	default:
		return true, p.release(ctx, object, version, seen, end)
	}
}

// release ends the share of the record in an object that stays. If it has to
// go, but for others, the fields that only our manifest had go, too; otherwise
// only the ownership ends or moves.
func (p *pass) release(
	ctx context.Context, object apply.Object, version string, seen *metav1.PartialObjectMetadata, end fate,
) error {
	manager := apply.As{Manager: managerOf(p.record.Name)}
	for _, applied := range apply.ManagersOf(seen, p.record.UID) {
		if end != fateDelete || p.sharedManager(seen, applied) {
			continue
		}
		kind, err := p.kinds.KindOf(schema.GroupVersionResource{Group: object.Group, Version: version, Resource: object.Resource})
		if err != nil {
			return err
		}
		body, err := apply.Release(kind, object, seen.UID, seen.ResourceVersion)
		if err != nil {
			return err
		}
		released, err := p.member.Apply(ctx, version, object, body, apply.As{Manager: applied})
		if apierrors.IsInvalid(err) {
			continue // the object would lack something without our fields, so they stay
		}
		if err != nil {
			return err
		}
		seen = released
	}
	rest := slices.DeleteFunc(slices.Clone(seen.OwnerReferences),
		func(o metav1.OwnerReference) bool { return o.UID == p.record.UID })
	if len(rest) < len(seen.OwnerReferences) {
		if end == fateMove && !slices.ContainsFunc(rest, func(o metav1.OwnerReference) bool { return o.UID == p.keeper.UID }) {
			rest = append(rest, ownerOf(p.keeper))
		}
		metadata := map[string]any{"resourceVersion": seen.ResourceVersion, "ownerReferences": rest}
		if !slices.ContainsFunc(rest, func(o metav1.OwnerReference) bool { return o.Kind == workv1.KindAppliedManifestWork }) {
			metadata["labels"] = map[string]any{workv1.LabelManaged: nil}
		}
		body, err := json.Marshal(map[string]any{"metadata": metadata})
		if err != nil {
			return fmt.Errorf("encoding the release of %s: %w", object, err)
		}
		if seen, err = p.member.Merge(ctx, version, object, body, manager); err != nil {
			return err
		}
	}
	p.inventory.Saw(object, seen, p.record.UID)
	return nil
}

func (p *pass) wasRequested(object apply.Object) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.state.requested[object]
	return ok && p.options.Clock.Since(at) < requestAgain
}

func (p *pass) setRequested(object apply.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.requested == nil {
		p.state.requested = map[apply.Object]time.Time{}
	}
	p.state.requested[object] = p.options.Clock.Now()
}
