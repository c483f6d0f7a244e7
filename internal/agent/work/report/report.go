// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
)

// namedObjectsMax is how many objects a message names.
const namedObjectsMax = 10

// PassOutcomes are what a pass has to say about a work.
type PassOutcomes struct {
	// Work is as the hub has it. It is not changed.
	Work *workv1.ManifestWork
	// Plan has what came of the manifests.
	Plan *plan.Plan
	// Leftovers are objects that are not in the work any more and are still there.
	Leftovers []plan.Leftover
	// List says what the AppliedManifestWork cannot list, if anything.
	List ListNote
	Now  time.Time
}

// ListNote says what an AppliedManifestWork cannot list. The zero value is
// that it lists everything.
type ListNote struct {
	Text string
	// Failed says that it is a fault.
	Failed bool
}

// statusComposer makes one status.
type statusComposer struct {
	PassOutcomes
	status *workv1.ManifestWorkStatus
	again  time.Duration
}

// ComposeStatus makes the status of what it was before, which it changes. Again is
// when to make it anew if nothing happens; zero is never.
func ComposeStatus(outcomes PassOutcomes, status *workv1.ManifestWorkStatus) (again time.Duration) {
	r := &statusComposer{PassOutcomes: outcomes, status: status}
	status.ResourceStatus.Manifests = r.manifestConditions(status.ResourceStatus.Manifests)
	r.setConditions()
	r.fitStatus()
	return r.again
}

// manifestConditions returns the entries of all manifests, whose conditions keep
// the transition times that they had.
func (r *statusComposer) manifestConditions(before []workv1.ManifestCondition) []workv1.ManifestCondition {
	type key struct{ group, kind, namespace, name string }
	keyOf := func(m *workv1.ManifestResourceMeta) key { return key{m.Group, m.Kind, m.Namespace, m.Name} }
	old := make(map[key]int, len(before))
	for i := range before {
		old[keyOf(&before[i].ResourceMeta)] = i
	}
	asksFeedback := r.Plan.AsksFeedback()
	entries := make([]statusEntry, len(r.Plan.Items))
	for i, it := range r.Plan.Items {
		e := &entries[i]
		e.generation = r.Work.Generation
		e.asksFeedback = asksFeedback
		e.ResourceMeta = it.Desired.ManifestMeta()
		if at, ok := old[keyOf(&e.ResourceMeta)]; ok {
			e.had = &before[at]
		}
		e.setConditions(it)
	}
	r.limitFeedback(entries)
	list := make([]workv1.ManifestCondition, len(entries))
	for i := range entries {
		list[i] = entries[i].ManifestCondition
	}
	return list
}
