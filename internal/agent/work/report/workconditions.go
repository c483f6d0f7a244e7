// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// setConditions makes the conditions of the work, one after the other. Those of its manifests are
// in the status.
func (r *statusComposer) setConditions() {
	r.setAppliedCondition()
	r.setAvailableCondition()
	r.setFeedbackCondition()
	r.setRuleConditions()
}

func (r *statusComposer) setAppliedCondition() {
	conditions.SetCondition(&r.status.Conditions, r.Work.Generation, r.appliedCondition())
}

// appliedCondition says whether all manifests are applied, and what else is not as it should be.
func (r *statusComposer) appliedCondition() metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonAppliedManifestWorkComplete, Message: "All manifests are applied.",
	}
	r.addFailures(&c)
	r.addLeftovers(&c)
	r.addListNote(&c)
	return c
}

func failApplied(c *metav1.Condition) {
	c.Status = metav1.ConditionFalse
	c.Reason = workv1.ManifestWorkReasonAppliedManifestWorkFailed
}

// addFailures names the manifests that are not applied.
func (r *statusComposer) addFailures(c *metav1.Condition) {
	failed := r.nameItems(func(it *plan.ManifestItem) bool { return it.ObjectProblem().Trouble != apply.TroubleNone })
	if failed == "" {
		return
	}
	failApplied(c)
	c.Message = "Not all manifests are applied; see status.resourceStatus: " + failed + "."
	if r.Plan.Options.ProblemAlone && len(r.Plan.Items) == 1 {
		c.Message = r.Plan.Items[0].ObjectProblem().Message
	}
}

// addLeftovers names the objects that have to go, unless they are gone in a moment.
func (r *statusComposer) addLeftovers(c *metav1.Condition) {
	stuck := HasStuckLeftover(r.Leftovers)
	if stuck {
		failApplied(c)
	}
	if stuck || r.slowPrune() {
		c.Message += " Objects that are no longer in the work still exist: " + describeLeftovers(r.Leftovers)
	}
}

// addListNote says what the AppliedManifestWork cannot list.
func (r *statusComposer) addListNote(c *metav1.Condition) {
	if r.List.Text == "" {
		return
	}
	c.Message += " " + r.List.Text
	if r.List.Failed {
		failApplied(c)
	}
}

// slowPrune reports whether an object that has to go is held by a finalizer;
// others are gone in a moment and not worth a write.
func (r *statusComposer) slowPrune() bool {
	return slices.ContainsFunc(r.Leftovers, func(l plan.Leftover) bool { return len(l.Finalizers) > 0 })
}

// setAvailableCondition says whether all objects exist.
func (r *statusComposer) setAvailableCondition() {
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
	conditions.SetCondition(&r.status.Conditions, r.Work.Generation, c)
}

// setFeedbackCondition sums up the feedback of the objects, if any is asked for.
func (r *statusComposer) setFeedbackCondition() {
	list := &r.status.Conditions
	if !r.Plan.AsksFeedback() {
		meta.RemoveStatusCondition(list, workv1.ManifestWorkConditionStatusFeedbackSynced)
		return
	}
	manifests := r.status.ResourceStatus.Manifests
	failed := r.nameItems(func(it *plan.ManifestItem) bool {
		c := meta.FindStatusCondition(manifests[it.Desired.Ordinal].Conditions, workv1.ManifestConditionStatusFeedbackSynced)
		return it.Observation != nil && it.Observation.ReportsValues() && (c == nil || c.Status != metav1.ConditionTrue)
	})
	c := feedbackCondition(nil, "")
	if failed != "" {
		c = feedbackCondition(nil, "Not all fields were read; see status.resourceStatus: "+failed+".")
	}
	conditions.SetCondition(list, r.Work.Generation, c)
}

// setRuleConditions sums up what rules, and health, say of the objects, and
// drops the sums of what they say no more.
func (r *statusComposer) setRuleConditions() {
	list := &r.status.Conditions
	manifests := r.status.ResourceStatus.Manifests
	var sums []metav1.Condition
	if r.Plan.HasRules() {
		sums = rules.AggregateConditions(r.askedConditions(manifests))
	}
	made := func(conditionType string) bool {
		return slices.ContainsFunc(sums, func(c metav1.Condition) bool { return c.Type == conditionType })
	}
	if r.Plan.Options.Health {
		for _, name := range []string{workv1.ManifestWorkConditionProgressing, workv1.ManifestWorkConditionDegraded} {
			has := func(m workv1.ManifestCondition) bool { return meta.FindStatusCondition(m.Conditions, name) != nil }
			if !made(name) && slices.ContainsFunc(manifests, has) {
				sums = append(sums, rules.AggregateType(name, workv1.ManifestWorkReasonHealthAggregated, manifests))
			}
		}
	}
	*list = slices.DeleteFunc(*list, func(c metav1.Condition) bool {
		ours := c.Reason == workv1.ManifestWorkReasonConditionRulesAggregated || c.Reason == workv1.ManifestWorkReasonHealthAggregated
		return ours && !made(c.Type)
	})
	for _, sum := range sums {
		conditions.SetCondition(list, r.Work.Generation, sum)
	}
}

// askedConditions returns the entries without the conditions Complete that no rule of the work asks
// for, unless all objects have one: that a Job is done does not make the work Complete that
// has other objects, which would not be applied any more.
func (r *statusComposer) askedConditions(manifests []workv1.ManifestCondition) []workv1.ManifestCondition {
	implied := func(it *plan.ManifestItem) bool { return it.Observation != nil && it.Observation.Implied }
	lasts := func(it *plan.ManifestItem) bool {
		return it.Observation == nil ||
			!slices.Contains(it.Observation.Rules.ConditionTypes(it.Desired.Manifest.Kind, it.Observation.Kinds), workv1.ManifestConditionComplete)
	}
	if !slices.ContainsFunc(r.Plan.Items, implied) || !slices.ContainsFunc(r.Plan.Items, lasts) {
		return manifests
	}
	manifests = slices.Clone(manifests)
	for i, it := range r.Plan.Items {
		if implied(it) {
			manifests[i].Conditions = slices.DeleteFunc(slices.Clone(manifests[i].Conditions), func(c metav1.Condition) bool {
				return c.Type == workv1.ManifestConditionComplete
			})
		}
	}
	return manifests
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
