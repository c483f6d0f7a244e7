// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/users"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// Plan is what one generation of a work asks for. A pass that leaves nothing
// to be done keeps what it wrote only; the next one makes the rest anew.
type Plan struct {
	UID        types.UID
	Generation int64
	Items      []*ManifestItem
	// Waves are the items class by class, in the order in which they are applied.
	Waves [][]*ManifestItem
	// Executor is whose rights the work has, nil for those of the agent.
	Executor *executor.Subject
	// Options are how the work is treated.
	Options WorkOptions
	// StatusLimit is not nil if the hub refused the status.
	StatusLimit *StatusLimit

	// observers are what is asked by each of the manifestConfigs, as far as
	// needed; the last one is for objects without a config.
	observers []*ObjectObserver
	// completes says that a rule may make a condition Complete.
	completes bool
	// settled is what was written for each object, if there is no more to
	// remember of a plan; it has no items then.
	settled []apply.LastWrite
	// written is what a settled plan before wrote, nil if there was none.
	written map[apply.ManifestHash]apply.LastWrite
}

// StatusLimit is how large a status the hub takes, as far as that was found out.
type StatusLimit struct {
	Room  int // bytes; 0 is for conditions of the work only
	Until time.Time
	Why   string // what the hub said
}

// HealthOptions of a plan that the work does not have.
type HealthOptions struct {
	// Health says that the health of the objects of all works is reported.
	Health bool
}

// ForManifestWork returns the plan for a work: the one before if the work has not changed
// since, and a new one otherwise.
func ForManifestWork(work *workv1.ManifestWork, before *Plan, options HealthOptions) (p *Plan, isNew bool) {
	now := ReadWorkOptions(work, options)
	if before != nil && before.settled == nil && before.UID == work.UID &&
		before.Generation == work.Generation && before.Options == now {
		return before, false
	}
	p = FromManifests(work, before)
	p.Options = now
	p.completes = p.Options.Completes || mayComplete(work) || slices.ContainsFunc(p.Items, func(it *ManifestItem) bool { return it.Desired.Expires })
	return p, true
}

// FromManifests reads the manifests of a work. What the plan before had done for the
// same objects is carried over.
func FromManifests(work *workv1.ManifestWork, before *Plan) *Plan {
	p := &Plan{UID: work.UID, Generation: work.Generation, Options: ReadWorkOptions(work, HealthOptions{})}
	manifests := work.Spec.Workload.Manifests
	for i := range manifests {
		it := &ManifestItem{}
		it.Desired.parseManifest(i, manifests[i].Raw, p.Options)
		p.Items = append(p.Items, it)
	}
	p.readExecutor(work.Spec.Executor)
	classes := map[apply.Class][]*ManifestItem{}
	for _, it := range p.Items {
		if it.Desired.Refused == nil {
			class := apply.ClassOf(it.Desired.Manifest.Kind.GroupKind())
			classes[class] = append(classes[class], it)
		}
	}
	for class := apply.ClassFoundation; class <= apply.ClassOther; class++ {
		if len(classes[class]) > 0 {
			p.Waves = append(p.Waves, classes[class])
		}
	}
	p.carryOver(before)
	return p
}

// readExecutor finds out whose rights the work has. If that is not clear
// nothing is applied.
func (p *Plan) readExecutor(given *workv1.ManifestWorkExecutor) {
	if given == nil {
		return
	}
	subject, err := executor.SubjectOf(given)
	if err == nil {
		p.Executor = &subject
		return
	}
	for _, it := range p.Items {
		if it.Desired.Refused == nil {
			it.Desired.refuse(err)
		}
	}
}

// carryOver takes over what is known of the objects that both plans have. Of a
// settled plan it is taken over when the hash is known: see ResolveItems.
func (p *Plan) carryOver(before *Plan) {
	if before == nil || before.UID != p.UID {
		return
	}
	if before.settled != nil {
		p.written = make(map[apply.ManifestHash]apply.LastWrite, len(before.settled))
		for _, past := range before.settled {
			p.written[past.Hash] = past
		}
		return
	}
	type key struct {
		kind            schema.GroupVersionKind
		namespace, name string
	}
	keyOf := func(it *ManifestItem) key {
		m := &it.Desired.Manifest
		return key{m.Kind, m.Namespace, m.Name}
	}
	known := make(map[key]*ManifestItem, len(before.Items))
	for _, it := range before.Items {
		known[keyOf(it)] = it
	}
	for _, it := range p.Items {
		if old, ok := known[keyOf(it)]; ok {
			it.History = old.History.carriedOver()
		}
	}
}

// ResetOutcomes forgets what came of the items in the pass before.
func (p *Plan) ResetOutcomes() {
	for _, it := range p.Items {
		it.beginPass()
	}
}

// KindFinder finds the resources of kinds, compiled rules, and what is known of kinds.
type KindFinder struct {
	// Find returns the resource of a kind as the cluster has it.
	Find func(schema.GroupVersionKind) (apply.Resource, error)
	// Rules are those that were compiled before.
	Rules *rules.RuleSetCache
	// Kinds knows what objects of a kind say.
	Kinds interpret.Chain
	// Bound knows it by what users of the hub say, too, and Said how often they said
	// something else of a kind.
	Bound interpret.Chain
	Said  func(schema.GroupVersionKind) users.KindRevision
	// Manifests has room for what is decoded of manifests. May be nil.
	Manifests *decoding.Memory
}

// interpreterChainOf returns who knows what the objects of a plan say.
func (f *KindFinder) interpreterChainOf(p *Plan) interpret.Chain {
	if p.Options.Interpreted {
		return f.Bound
	}
	return f.Kinds
}

// ResolveItems finds the resources of the items' kinds that are not known yet, notes what
// users of the hub say of them now, and refuses the second manifest of an object. It fails only if
// ctx ends.
func (p *Plan) ResolveItems(ctx context.Context, items []*ManifestItem, work *workv1.ManifestWork, finder KindFinder) error {
	for _, it := range items {
		if !it.IsResolved() && it.Desired.Refused == nil {
			if err := p.resolveItem(ctx, it, work, &finder); err != nil {
				return err
			}
		}
		if p.Options.Interpreted && it.IsDeliverable() {
			it.Desired.applyRevision(finder.Said(it.Desired.Manifest.Kind))
		}
	}
	p.refuseDuplicates()
	return nil
}

// resolveItem finds the resource of an item's kind, and what is asked about its object.
func (p *Plan) resolveItem(ctx context.Context, it *ManifestItem, work *workv1.ManifestWork, finder *KindFinder) error {
	want := &it.Desired
	resource, err := finder.Find(want.Manifest.Kind)
	if err != nil {
		want.Problem = apply.ExplainError(err, "apply", apply.ObjectRef{})
		return nil
	}
	want.Problem = apply.ObjectProblem{}
	want.resolveResource(resource, work.Spec.ManifestConfigs)
	want.plain = want.Hash
	if past, ok := p.written[want.Hash]; ok {
		it.History.Past = past
	}
	if want.Refused != nil {
		return nil //nolint:nilerr // the item says it
	}
	if p.Options.Retains {
		ctx, end := finder.Manifests.BeginReservation(ctx, ContentOwner(work))
		err := want.setRetained(ctx, work.Spec.Workload.Manifests[want.Ordinal].Raw, finder.Kinds)
		end()
		if err != nil {
			want.Resolved = false // without them, the manifest would take what is the cluster's
			return err
		}
	}
	p.addObservation(it, work.Spec.ManifestConfigs, finder)
	return nil
}

// refuseDuplicates refuses manifests of objects that an earlier manifest has.
func (p *Plan) refuseDuplicates() {
	first := map[apply.ObjectRef]int{}
	for _, it := range p.Items {
		if !it.IsDeliverable() {
			continue
		}
		if earlier, ok := first[it.Desired.Object]; ok {
			it.Desired.refuse(fmt.Errorf("manifest %d is for the same object: remove one of them", earlier))
			continue
		}
		first[it.Desired.Object] = it.Desired.Ordinal
	}
}

// CompactPlan returns what is to be kept of a plan when a pass has ended: the plan
// itself, if there is more to remember than what was written last.
func (p *Plan) CompactPlan(now time.Time) *Plan {
	if p.Executor != nil || p.completes || p.StatusLimit != nil {
		return p
	}
	kept := &Plan{UID: p.UID, Generation: p.Generation, settled: make([]apply.LastWrite, 0, len(p.Items))}
	for _, it := range p.Items {
		if !it.isSettled(now) {
			return p
		}
		kept.settled = append(kept.settled, it.History.Past)
	}
	return kept
}

// CustomizableKinds returns the kinds of the manifests of a plan that users of the hub may have
// customized.
func (p *Plan) CustomizableKinds() []schema.GroupVersionKind {
	if !p.Options.Interpreted {
		return nil
	}
	kinds := make([]schema.GroupVersionKind, 0, len(p.Items))
	for _, it := range p.Items {
		kinds = append(kinds, it.Desired.Manifest.Kind)
	}
	return kinds
}

// OwnedTypes returns the resources of the objects that the work owns, sorted.
func (p *Plan) OwnedTypes() []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for _, it := range p.Items {
		if it.IsResolved() && !it.Desired.ReadOnly {
			resources = append(resources, it.Desired.Resource)
		}
	}
	return SortTypes(resources)
}

// IsResolved reports whether the resources of all manifests are known.
func (p *Plan) IsResolved() bool {
	return !slices.ContainsFunc(p.Items, func(it *ManifestItem) bool { return !it.IsResolved() })
}

// SortTypes sorts and leaves out what is there twice.
func SortTypes(resources []schema.GroupVersionResource) []schema.GroupVersionResource {
	slices.SortFunc(resources, func(a, b schema.GroupVersionResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(resources)
}
