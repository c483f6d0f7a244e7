// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance/counting"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/override"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// presentWorks are the works that there are.
type presentWorks struct {
	// own are those of the binding, and earlier those of earlier objects of its name.
	own, earlier []workv1.ManifestWork
}

// deliveryResult is what came of sending an object.
type deliveryResult struct {
	// problems say why clusters do not get the object, by cluster: what is wrong with
	// what their works are made of, or why these could not be written.
	problems map[string]error
	// again is how soon to try again; 0 if there is no need.
	again time.Duration
	// settled says that nothing was written, as all that can be right is: or else the
	// cache is about to show something else.
	settled bool
	// limited is what is held back as the namespace has, or was written, as much as it may.
	limited allowance.HeldWorks
}

// delivery is the sending of one object. It is done in parts: the works of many clusters
// are made and written, and forgotten, before those of others are made.
type delivery struct {
	by      *BindingController
	binding binding
	// owner is whose allowance the works count for.
	owner allowance.WorkOwner
	// left are the works of clusters that no part was about yet, and gone those that are to
	// be deleted, after all others are written: an object that moves goes to its new clusters
	// before it leaves the others.
	left map[string][]workv1.ManifestWork
	gone []workv1.ManifestWork
	// keep says that clusters which are to lose the object keep it.
	keep bool
	// What came of it, by cluster: mistakes of the user, works that wait for their turn, and
	// works that could not be written.
	problems, held, failed map[string]error
	wrote, overridden      bool
	// arriving says that works of further clusters wait for their turn: until they are there, no cluster
	// loses the object, or it would be nowhere meanwhile.
	arriving bool
	// limited is what the allowance of the owner does not let through now.
	limited allowance.HeldWorks
}

// deliverObject makes the works of a binding what they are to be. What goes wrong for a cluster
// concerns that one alone: its member may want it to.
func (c *BindingController) deliverObject(
	ctx context.Context, b binding, object *unstructured.Unstructured, owner allowance.WorkOwner, works presentWorks,
) (deliveryResult, error) {
	d := &delivery{
		by: c, binding: b, owner: owner, left: map[string][]workv1.ManifestWork{},
		problems: map[string]error{}, held: map[string]error{}, failed: map[string]error{},
	}
	defer c.Written.EndCurrent(b)
	for _, work := range works.own {
		d.left[work.Namespace] = append(d.left[work.Namespace], work)
	}
	if current, err := d.deleteEarlierWorks(ctx, works.earlier); err != nil || !current {
		return deliveryResult{}, err
	}
	for part, err := range c.renderWorkBatches(ctx, b, object, owner, works.own) {
		if err != nil {
			return deliveryResult{}, err
		}
		if current, err := d.writeBatch(ctx, part); err != nil || !current {
			return deliveryResult{}, err
		}
	}
	if current, err := d.removeLeavingWorks(ctx); err != nil || !current {
		return deliveryResult{}, err
	}
	return d.summarizeDelivery(), nil
}

// renderWorkBatches returns the works that a binding is to have now. With a rollout, they are one part:
// it decides about all of them.
func (c *BindingController) renderWorkBatches(
	ctx context.Context, b binding, object *unstructured.Unstructured, owner allowance.WorkOwner, present []workv1.ManifestWork,
) iter.Seq2[staging.StageVerdict, error] {
	return func(yield func(staging.StageVerdict, error) bool) {
		wide, own, err := c.listOverrides(ctx, object)
		if err != nil {
			yield(staging.StageVerdict{}, err)
			return
		}
		policies, mistake := override.SelectPolicies(object, wide, own)
		source := deliver.WorkSource{Binding: b, Object: object, Fleet: c.Fleet.Snapshot(), Chain: c.Chain, Overrides: policies, ClusterWide: owner.ClusterWide, Mistake: mistake}
		governed, err := staging.GovernsBinding(ctx, c.Stages, b, object)
		defer c.Stages.Turns.Done(client.ObjectKeyFromObject(b))
		if err == nil && source.IsHeavyToRender(governed) {
			if err = c.Stages.Turns.Take(client.ObjectKeyFromObject(b)); err == nil {
				c.Objects.Memory.EndReservation(ctx) // few have a turn, and it may last for minutes
			}
		}
		switch {
		case err != nil:
			yield(staging.StageVerdict{}, err)
		case governed:
			yield(c.renderStagedWorks(ctx, staging.StageInput{Binding: b, Source: source, Wide: wide, Own: own, Works: present}))
		default:
			for part, err := range deliver.RenderBatches(source) {
				if err != nil {
					err = fmt.Errorf("making the works of binding %q: %w", client.ObjectKeyFromObject(b), err)
				}
				if !yield(staging.StageVerdict{Wanted: part.Works, Problems: part.Problems}, err) {
					return
				}
			}
		}
	}
}

// renderStagedWorks returns the works that a binding of a rollout is to have now.
func (c *BindingController) renderStagedWorks(ctx context.Context, in staging.StageInput) (verdict staging.StageVerdict, err error) {
	if in.Source.Mistake == nil {
		in.Source.Mistake = in.Source.TooHeavy()
	}
	if in.Wanted, in.Problems, err = deliver.RenderWorks(in.Source); err != nil {
		return verdict, fmt.Errorf("making the works of binding %q: %w", client.ObjectKeyFromObject(in.Binding), err)
	}
	return c.Stages.StageWorks(ctx, in)
}

// writeBatch makes the works of a part what they are to be, but for those that go. It tells
// whether the binding is what was decided by.
func (d *delivery) writeBatch(ctx context.Context, part staging.StageVerdict) (current bool, err error) {
	still := joinProblems(part.Problems, part.Still)
	changes, err := deliver.CompareWorks(part.Wanted, d.takePresentWorks(part.Wanted, still), still)
	if err != nil {
		return false, fmt.Errorf("comparing the works of binding %q: %w", client.ObjectKeyFromObject(d.binding), err)
	}
	d.keep = d.keep || part.Keep
	d.gone = append(d.gone, changes.Gone...)
	changes.Gone = nil
	if len(changes.New) > 0 && !d.by.Written.Current(d.binding) {
		if current, err := d.by.isDecisionCurrent(ctx, d.binding); err != nil || !current {
			return false, err
		}
	}
	if changes, err = d.limitChanges(ctx, changes); err != nil {
		return false, err
	}
	maps.Copy(d.problems, part.Problems)
	maps.Copy(d.held, part.Held)
	d.wrote = d.wrote || !changes.IsEmpty()
	d.overridden = d.overridden || anyOverridden(part.Wanted)
	d.applyChanges(ctx, changes)
	return true, nil
}

// limitChanges returns the changes that the allowance of the owner lets through now. Those of bindings
// without a namespace, which are an administrator's, wait for their turn only.
func (d *delivery) limitChanges(ctx context.Context, changes deliver.WorkChanges) (deliver.WorkChanges, error) {
	// Where the work of an earlier object waits for its turn to be deleted, the name is not free yet.
	changes.New = d.takeHeld(changes.New, d.limited)
	if len(changes.New)+len(changes.Changed) == 0 {
		return changes, nil
	}
	mistake, err := counting.TakeLimit(ctx, d.by.Client, d.by.Allowance, d.owner)
	if err != nil {
		return changes, err //nolint:wrapcheck // it names the namespace
	}
	if mistake != nil {
		d.by.Events.Eventf(d.binding, nil, corev1.EventTypeWarning, "NamespaceLimitInvalid", action, "%v", mistake)
	}
	held := d.by.Allowance.AdmitWrites(d.owner, changes.AllowanceWrites(d.by.Restless.IsMadeAgain))
	d.limited = d.limited.MergeHeld(held)
	changes.New = d.takeHeld(changes.New, held)
	return changes.WithoutHeld(held), nil
}

// takeHeld returns the new works without those that are held back, and notes whether some only wait for
// their turn. What is refused for want of room is not waited for: what goes makes room.
func (d *delivery) takeHeld(works []*workv1.ManifestWork, held allowance.HeldWorks) []*workv1.ManifestWork {
	return slices.DeleteFunc(works, func(work *workv1.ManifestWork) bool {
		d.arriving = d.arriving || held.WaitsForTurn(work.Namespace)
		return held.Clusters[work.Namespace] != nil
	})
}

// deleteEarlierWorks deletes the works of earlier objects. It reports whether the binding is what was
// decided by.
func (d *delivery) deleteEarlierWorks(ctx context.Context, earlier []workv1.ManifestWork) (current bool, err error) {
	lost := slices.DeleteFunc(earlier, func(work workv1.ManifestWork) bool { return !isAliveWork(work) })
	if len(lost) == 0 {
		return true, nil
	}
	if current, err := d.by.isDecisionCurrent(ctx, d.binding); err != nil || !current {
		return false, err
	}
	return true, d.withdrawWorks(ctx, lost, false)
}

// withdrawWorks deletes works, those whose turn it is.
func (d *delivery) withdrawWorks(ctx context.Context, works []workv1.ManifestWork, preserve bool) error {
	gone, err := withdrawBindingWorks(ctx, d.by.BindingControllerDeps, d.binding.GetNamespace(), works, preserve)
	d.wrote = d.wrote || gone.some
	d.limited = d.limited.MergeHeld(gone.held)
	maps.Copy(d.failed, gone.failed)
	return err
}

// takePresentWorks returns the works that there are in the clusters of a part.
func (d *delivery) takePresentWorks(wanted map[string]*workv1.ManifestWork, still map[string]error) []workv1.ManifestWork {
	var taken []workv1.ManifestWork
	take := func(cluster string) {
		taken = append(taken, d.left[cluster]...)
		delete(d.left, cluster)
	}
	for cluster := range wanted {
		take(cluster)
	}
	for cluster := range still {
		take(cluster)
	}
	return taken
}

// removeLeavingWorks deletes the works of clusters that are to lose the object. It reports whether the
// binding is what was decided by.
func (d *delivery) removeLeavingWorks(ctx context.Context) (current bool, err error) {
	for _, works := range d.left {
		for _, work := range works {
			if isAliveWork(work) {
				d.gone = append(d.gone, work)
			}
		}
	}
	gone := slices.DeleteFunc(d.gone, func(work workv1.ManifestWork) bool {
		return d.keep || d.arriving || !d.by.Fleet.Settled(work.Namespace) // the binding comes again when it has
	})
	if len(gone) == 0 {
		return true, nil
	}
	needing, err := clustersOfReferrers(ctx, d.by.Client, d.binding)
	if err != nil {
		return false, err
	}
	gone = slices.DeleteFunc(gone, func(work workv1.ManifestWork) bool { return needing.Has(work.Namespace) })
	if len(gone) == 0 {
		return true, nil
	}
	if current, err := d.by.isDecisionCurrent(ctx, d.binding); err != nil || !current {
		return false, err
	}
	return true, d.withdrawWorks(ctx, gone, deliver.PreservesOnDeletion(d.binding))
}

// clustersOfReferrers returns the clusters that the bindings have now which need the object of a
// binding. Its own spec.requiredBy follows them a moment later, and under load more: until then,
// no cluster loses what an object needs that was just sent there. The binding is reconciled again
// when it has followed. It is the hub that writes spec.requiredBy, but users of the namespace may as
// well: bindings of other namespaces, which need nothing in this one, count for nothing, and each
// is read once.
func clustersOfReferrers(ctx context.Context, reader client.Reader, b binding) (sets.Set[string], error) {
	clusters := sets.Set[string]{}
	names := sets.Set[string]{}
	for _, snapshot := range b.BindingSpec().RequiredBy {
		if snapshot.Namespace == b.GetNamespace() {
			names.Insert(snapshot.Name)
		}
	}
	for name := range names {
		referrer, err := readBinding(ctx, reader, types.NamespacedName{Namespace: b.GetNamespace(), Name: name})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, err
		case references.SendsDependencies(referrer):
			for _, target := range referrer.BindingSpec().Clusters {
				clusters.Insert(target.Name)
			}
		}
	}
	return clusters, nil
}

// applyChanges makes changes, but for works that go.
func (d *delivery) applyChanges(ctx context.Context, changes deliver.WorkChanges) {
	failed := d.by.workWriter().WriteChanges(ctx, changes)
	d.by.Allowance.ReportFailedWrites(d.owner, deliver.NameOfWorks(d.binding), failed)
	maps.Copy(d.failed, failed)
}

// summarizeDelivery tells what was done, and returns what came of it.
func (d *delivery) summarizeDelivery() deliveryResult {
	passing := send.TakePassingErrors(d.failed)
	lasting := send.LastingErrors(d.failed, d.by.Clock.Now())
	d.by.Announce.RecordEvents(announce.SendResult{
		Wrote: d.wrote, Overridden: d.overridden, Mistakes: send.JoinErrors(d.problems), Failed: send.JoinErrors(lasting),
	}.Events(d.binding)...)
	d.by.Stages.RecordFailures(client.ObjectKeyFromObject(d.binding), lasting)
	result := deliveryResult{settled: !d.wrote || len(d.failed) > 0 || passing != nil || d.limited.AnyHeld(), limited: d.limited, again: d.limited.Again}
	for _, problem := range d.problems {
		result.again = shorterWait(result.again, interpret.RetryDelayOf(problem))
	}
	if len(d.failed) > 0 {
		result.again = shorterWait(result.again, again)
	}
	if passing != nil {
		result.again = settle
	}
	result.problems = joinProblems(joinProblems(joinProblems(d.problems, d.held), d.limited.Clusters), d.failed)
	return result
}

// joinProblems returns what keeps clusters from getting an object, for two reasons.
func joinProblems(a, b map[string]error) map[string]error {
	if len(b) == 0 {
		return a
	}
	all := map[string]error{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
