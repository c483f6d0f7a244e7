// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/conditions"
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
	generation := r.Work.Generation
	conditions.SetCondition(&status.Conditions, generation, r.appliedCondition())
	conditions.SetCondition(&status.Conditions, generation, r.availableCondition())
	r.setFeedbackCondition()
	r.setRuleConditions()
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
	entries := make([]statusEntry, len(r.Plan.Items))
	for i, it := range r.Plan.Items {
		e := &entries[i]
		e.generation, e.ResourceMeta = r.Work.Generation, it.Desired.ManifestMeta()
		if at, ok := old[keyOf(&e.ResourceMeta)]; ok {
			e.had = &before[at]
		}
		r.fillEntry(e, it)
	}
	r.limitFeedback(entries)
	list := make([]workv1.ManifestCondition, len(entries))
	for i := range entries {
		list[i] = entries[i].ManifestCondition
	}
	return list
}

// fillEntry adds the conditions of an item to its entry.
func (r *statusComposer) fillEntry(e *statusEntry, it *plan.ManifestItem) {
	applied := appliedCondition(it)
	e.setCondition(applied)
	e.setCondition(availableCondition(it))
	if it.Observation != nil {
		e.addObserved(it.Observation)
	}
	if it.IsDeliverable() && (it.Observation == nil || !it.Observation.ReportsValues()) && r.Plan.AsksFeedback() {
		e.setCondition(metav1.Condition{
			Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionTrue,
			Reason: workv1.ManifestReasonNoStatusFeedbackSynced, Message: "No feedback rule applies to this object.",
		})
	}
	if applied.Status == metav1.ConditionTrue && plan.IsConditionComplete(e.Conditions, e.generation) {
		applied.Message = "The object has completed and is not applied again until the work changes."
		e.setCondition(applied)
	}
	e.keepForeign()
}

func appliedCondition(it *plan.ManifestItem) metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestConditionApplied, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestReasonAppliedManifestComplete, Message: "The object matches the manifest.",
	}
	if it.ObjectProblem().Trouble != apply.TroubleNone {
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestReasonAppliedManifestFailed
		if it.ObjectProblem().Trouble == apply.TroubleExpression {
			c.Reason = workv1.ManifestReasonAppliedManifestSSAIgnoreFieldError
		}
		c.Message = it.ObjectProblem().Message
		return c
	}
	if it.Outcome.Note != "" {
		c.Message = it.Outcome.Note
	}
	if it.Observation != nil && it.Observation.Rules != nil {
		for _, problem := range it.Observation.Rules.RuleProblems() {
			c.Message += " Not followed: " + problem + "."
		}
	}
	return c
}

func availableCondition(it *plan.ManifestItem) metav1.Condition {
	c := metav1.Condition{Type: workv1.ManifestConditionAvailable}
	switch {
	case it.ObjectPresence() == plan.PresenceYes:
		c.Status = metav1.ConditionTrue
		c.Reason = workv1.ManifestReasonResourceAvailable
		c.Message = "The object exists on the cluster."
	case it.ObjectPresence() == plan.PresenceNo:
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestReasonResourceNotAvailable
		c.Message = "The object does not exist on the cluster."
	case !it.IsResolved():
		c.Status = metav1.ConditionUnknown
		c.Reason = workv1.ManifestReasonIncompleteResourceMeta
		c.Message = "The object cannot be looked for; condition Applied says why."
	default:
		c.Status = metav1.ConditionUnknown
		c.Reason = workv1.ManifestReasonFetchingResourceFailed
		c.Message = "The object could not be read."
	}
	return c
}

func (r *statusComposer) appliedCondition() metav1.Condition {
	failed := r.nameItems(func(it *plan.ManifestItem) bool { return it.ObjectProblem().Trouble != apply.TroubleNone })
	c := metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonAppliedManifestWorkComplete, Message: "All manifests are applied.",
	}
	if failed != "" {
		c.Message = "Not all manifests are applied; see status.resourceStatus: " + failed + "."
		if r.Plan.Options.ProblemAlone && len(r.Plan.Items) == 1 {
			c.Message = r.Plan.Items[0].ObjectProblem().Message
		}
	}
	stuck := HasStuckLeftover(r.Leftovers)
	if failed != "" || stuck {
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestWorkReasonAppliedManifestWorkFailed
	}
	if len(r.Leftovers) > 0 && (stuck || r.slowPrune()) {
		c.Message += " Objects that are no longer in the work still exist: " + describeLeftovers(r.Leftovers)
	}
	if r.List.Text != "" {
		c.Message += " " + r.List.Text
		if r.List.Failed {
			c.Status = metav1.ConditionFalse
			c.Reason = workv1.ManifestWorkReasonAppliedManifestWorkFailed
		}
	}
	return c
}

// slowPrune reports whether an object that has to go is held by a finalizer;
// others are gone in a moment and not worth a write.
func (r *statusComposer) slowPrune() bool {
	return slices.ContainsFunc(r.Leftovers, func(l plan.Leftover) bool { return len(l.Finalizers) > 0 })
}

func (r *statusComposer) availableCondition() metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestWorkConditionAvailable, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonResourcesAvailable, Message: "All objects exist on the cluster.",
	}
	missing := r.nameItems(func(it *plan.ManifestItem) bool { return it.ObjectPresence() == plan.PresenceNo })
	unknown := r.nameItems(func(it *plan.ManifestItem) bool { return it.ObjectPresence() == plan.PresenceUnknown })
	switch {
	case missing != "":
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestWorkReasonResourcesNotAvailable
		c.Message = "Not all objects exist on the cluster; missing: " + missing + "."
	case unknown != "":
		c.Status = metav1.ConditionUnknown
		c.Reason = workv1.ManifestWorkReasonResourcesStatusUnknown
		c.Message = "Cannot determine whether all objects exist on the cluster: " + unknown + "."
	}
	return c
}

// nameItems returns the first manifests that the function picks, "" if none.
func (r *statusComposer) nameItems(pick func(*plan.ManifestItem) bool) string {
	var names []string
	more := 0
	for _, it := range r.Plan.Items {
		switch {
		case !pick(it):
		case len(names) == namedObjectsMax:
			more++
		default:
			names = append(names, it.Desired.String())
		}
	}
	return strings.Join(andMore(names, more), ", ")
}
