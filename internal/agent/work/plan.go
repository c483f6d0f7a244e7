// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/apply/ignore"
)

// plan is what one generation of a work asks for. A pass that leaves nothing
// to be done keeps what it wrote only; the next one makes the rest anew.
type plan struct {
	uid        types.UID
	generation int64
	// settled is what was written for each object, if there is no more to
	// remember of a plan; it has no items then.
	settled []apply.Past
	items   []*item
	// waves are the items class by class.
	waves [][]*item
	// executor is whose rights the work has, nil for those of the agent.
	executor *executor.Subject
	// health says that the health of all objects is reported.
	health bool
	// observers are what is asked by each of the manifestConfigs, as far as
	// needed; the last one is for objects without a config.
	observers []*observer
	// completes says that a rule may make a condition Complete.
	completes bool
	// cramped is not nil if the hub refused the status.
	cramped *cramped
	// written is what a settled plan before wrote, nil if there was none.
	written map[apply.Hash]apply.Past
}

// item is one manifest, and what was done about it.
type item struct {
	ordinal  int
	manifest apply.Manifest
	// refused is why the manifest is not applied, whatever the member says.
	refused error

	// The following are known once the member has told the resource of the kind.
	resolved bool
	resource schema.GroupVersionResource
	object   apply.Object
	strategy apply.Strategy
	apply    *workv1.ServerSideApplyConfig
	ignored  *ignore.Fields // fields to leave alone, nil for none
	// hash is of the manifest and of how it is applied.
	hash apply.Hash
	// observation is what is asked about the object, nil if nothing is.
	observation *observation

	past   apply.Past
	at     time.Time // of the last write
	damper apply.Damper

	outcome outcome
}

// outcome is what came of an item in a pass.
type outcome struct {
	problem  apply.Problem
	presence presence
	met      apply.Mark    // of the object before the pass wrote it
	denied   bool          // the executor lacks a permission
	note     string        // added to the message of success
	again    time.Duration // when to look again if nothing happens; zero is never
}

// presence is what is known of an object's existence.
type presence uint8

const (
	presenceUnknown presence = iota
	presenceYes
	presenceNo
)

// newPlan reads the manifests of a work. What the plan before had done for
// the same objects is carried over.
func newPlan(work *workv1.ManifestWork, before *plan) *plan {
	p := &plan{uid: work.UID, generation: work.Generation}
	manifests := work.Spec.Workload.Manifests
	for i := range manifests {
		it := &item{ordinal: i}
		it.manifest, it.refused = apply.Read(manifests[i].Raw)
		p.items = append(p.items, it)
	}
	p.readExecutor(work.Spec.Executor)
	classes := map[apply.Class][]*item{}
	for _, it := range p.items {
		if it.refused == nil {
			class := apply.ClassOf(it.manifest.Kind.GroupKind())
			classes[class] = append(classes[class], it)
		}
	}
	for class := apply.ClassFoundation; class <= apply.ClassOther; class++ {
		if len(classes[class]) > 0 {
			p.waves = append(p.waves, classes[class])
		}
	}
	p.carry(before)
	return p
}

// readExecutor finds out whose rights the work has. If that is not clear
// nothing is applied.
func (p *plan) readExecutor(given *workv1.ManifestWorkExecutor) {
	if given == nil {
		return
	}
	subject, err := executor.SubjectOf(given)
	if err == nil {
		p.executor = &subject
		return
	}
	for _, it := range p.items {
		it.refused = cmp.Or(it.refused, err)
	}
}

// carry takes over what is known of the objects that both plans have. Of a
// settled plan it is taken over when the hash is known: see resolve.
func (p *plan) carry(before *plan) {
	if before == nil || before.uid != p.uid {
		return
	}
	if before.settled != nil {
		p.written = make(map[apply.Hash]apply.Past, len(before.settled))
		for _, past := range before.settled {
			p.written[past.Hash] = past
		}
		return
	}
	type key struct {
		kind            schema.GroupVersionKind
		namespace, name string
	}
	known := make(map[key]*item, len(before.items))
	for _, it := range before.items {
		known[key{it.manifest.Kind, it.manifest.Namespace, it.manifest.Name}] = it
	}
	for _, it := range p.items {
		if old, ok := known[key{it.manifest.Kind, it.manifest.Namespace, it.manifest.Name}]; ok {
			it.past, it.at, it.damper = old.past, old.at, old.damper
		}
	}
}

// rest returns what is to be kept of a plan when a pass has ended: the plan
// itself, if there is more to remember than what was written last.
func (p *plan) rest(now time.Time) *plan {
	if p.executor != nil || p.completes || p.cramped != nil {
		return p
	}
	kept := &plan{uid: p.uid, generation: p.generation, settled: make([]apply.Past, 0, len(p.items))}
	for _, it := range p.items {
		if !it.isSettled(now) {
			return p
		}
		kept.settled = append(kept.settled, it.past)
	}
	return kept
}

// isSettled tells whether it would do no harm to forget about an item all but
// what was written.
func (it *item) isSettled(now time.Time) bool {
	return it.resolved && it.refused == nil && it.outcome.problem.Trouble == apply.TroubleNone && it.outcome.again == 0 &&
		it.past.Hash == it.hash && it.past.Mark.UID != "" && it.ignored == nil && it.observation == nil && it.damper.Quiet(now)
}

// resolve fills in what depends on the resource of the item's kind.
func (it *item) resolve(resource apply.Resource, configs []workv1.ManifestConfigOption) {
	it.resolved, it.hash = true, it.manifest.Hash
	it.resource = resource.GroupVersionResource
	it.object = apply.Object{
		Group: resource.Group, Resource: resource.Resource,
		Namespace: it.manifest.Namespace, Name: it.manifest.Name,
	}
	switch {
	case !resource.Namespaced:
		it.object.Namespace = ""
	case it.object.Namespace == "":
		it.refused = fmt.Errorf("%w: objects of kind %s live in a namespace; give metadata.namespace",
			apply.ErrNotObject, it.manifest.Kind.Kind)
		return
	}
	for i := range configs {
		if matches(configs[i].ResourceIdentifier, it.object) {
			it.configure(&configs[i])
			return
		}
	}
}

// configure takes over the options for the item.
func (it *item) configure(config *workv1.ManifestConfigOption) {
	if config.UpdateStrategy == nil {
		return
	}
	switch config.UpdateStrategy.Type {
	case "", workv1.UpdateStrategyTypeUpdate:
	case workv1.UpdateStrategyTypeCreateOnly:
		it.strategy = apply.StrategyCreateOnly
		it.hash = apply.HashOf(append([]byte(workv1.UpdateStrategyTypeCreateOnly), it.manifest.Hash[:]...))
	case workv1.UpdateStrategyTypeReadOnly:
		it.strategy = apply.StrategyReadOnly
	case workv1.UpdateStrategyTypeServerSideApply:
		it.strategy = apply.StrategyServerSideApply
		it.apply = cmp.Or(config.UpdateStrategy.ServerSideApply, &workv1.ServerSideApplyConfig{})
		if len(it.apply.IgnoreFields) > 0 {
			it.ignored, it.refused = ignore.Compile(it.apply.IgnoreFields)
		}
		how, err := json.Marshal(it.apply)
		if err != nil { // text and numbers only
			it.refused = fmt.Errorf("updateStrategy.serverSideApply: %w", err)
		}
		it.hash = apply.HashOf(append(how, it.manifest.Hash[:]...))
	default:
		it.refused = fmt.Errorf("this version of the agent does not support updateStrategy.type %q: %w",
			config.UpdateStrategy.Type, errUnsupported)
	}
}

// matches tells whether an identifier of the API names the object. "*" stands
// for any characters in the namespace and the name.
func matches(id workv1.ResourceIdentifier, object apply.Object) bool {
	return id.Group == object.Group && id.Resource == object.Resource &&
		glob(id.Namespace, object.Namespace) && glob(id.Name, object.Name)
}

func glob(pattern, text string) bool {
	if pattern == text || pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, text)
	return err == nil && ok
}

// wanted returns the resources of the items that are resolved, sorted.
func (p *plan) wanted() []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for _, it := range p.items {
		if it.resolved && it.strategy != apply.StrategyReadOnly {
			resources = append(resources, it.resource)
		}
	}
	return sortResources(resources)
}

// sortResources sorts and leaves out what is there twice.
func sortResources(resources []schema.GroupVersionResource) []schema.GroupVersionResource {
	slices.SortFunc(resources, func(a, b schema.GroupVersionResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(resources)
}
