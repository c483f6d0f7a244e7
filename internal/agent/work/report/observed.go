// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// statusEntry is an entry of the status about one object, as it becomes and as it was.
type statusEntry struct {
	workv1.ManifestCondition
	had        *workv1.ManifestCondition // nil if there was none
	generation int64
}

// previousConditions returns the conditions that the entry had.
func (e *statusEntry) previousConditions() []metav1.Condition {
	if e.had == nil {
		return nil
	}
	return e.had.Conditions
}

func (e *statusEntry) manifestKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.ResourceMeta.Group, Version: e.ResourceMeta.Version, Kind: e.ResourceMeta.Kind}
}

// setCondition sets a condition, which keeps its transition time if its status does not
// change.
func (e *statusEntry) setCondition(condition metav1.Condition) {
	e.keepCondition(condition.Type)
	conditions.SetCondition(&e.Conditions, e.generation, condition)
}

// keepCondition leaves a condition as it was, if there was one.
func (e *statusEntry) keepCondition(conditionType string) {
	if meta.FindStatusCondition(e.Conditions, conditionType) == nil {
		e.Conditions = append(e.Conditions, conditions.SelectByType(e.previousConditions(), conditionType)...)
	}
}

// keepForeign leaves those conditions as they were that this agent has nothing
// to do with.
func (e *statusEntry) keepForeign() {
	before := e.previousConditions()
	for i := range before {
		c := &before[i]
		switch c.Type {
		case workv1.ManifestConditionApplied, workv1.ManifestConditionAvailable, workv1.ManifestConditionStatusFeedbackSynced,
			workv1.ManifestConditionProgressing, workv1.ManifestConditionDegraded, workv1.ManifestConditionComplete:
			continue
		}
		if !rules.FromRule(c) {
			e.keepCondition(c.Type)
		}
	}
}

// missingText is what is said about objects that are not there to be read.
const missingText = "The object does not exist on the cluster."

// addObserved adds what was observed of the item's object.
func (e *statusEntry) addObserved(o *plan.Observation) {
	text := ""
	switch {
	case o.LastingProblem().Trouble != apply.TroubleNone:
		text = o.LastingProblem().Message
	case o.Presence == plan.PresenceNo:
		text = missingText
	case o.Seen == "": // not read yet
		e.keepObserved(o)
		return
	}
	if text != "" && plan.IsConditionComplete(e.previousConditions(), e.generation) {
		e.keepObserved(o) // it has done what it is for; that it is gone does not change that
		return
	}
	if o.ReportsValues() {
		e.StatusFeedback.Values = o.Values
		switch {
		case o.State && text != "":
			e.StatusFeedback.Values = feedback.StateUnknown()
		case o.Unreflected && e.had != nil:
			e.StatusFeedback.Values = feedback.LastKnown(o.Values, e.had.StatusFeedback.Values)
		}
		c := readCondition(o, text)
		if text == "" && o.Misjudged != nil {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, workv1.ManifestReasonInterpretationFailed, interpret.ErrorSentences(o.Misjudged)
		}
		e.setCondition(c)
	}
	for _, c := range conditionsOr(o, text, e.manifestKind()) {
		e.setCondition(c)
	}
}

// keepObserved leaves what was observed as it was.
func (e *statusEntry) keepObserved(o *plan.Observation) {
	if o.ReportsValues() && e.had != nil {
		e.StatusFeedback = e.had.StatusFeedback
		e.keepCondition(workv1.ManifestConditionStatusFeedbackSynced)
	}
	for _, c := range conditionsOr(o, missingText, e.manifestKind()) {
		e.keepCondition(c.Type)
	}
}

// readCondition says whether the fields of an object were read, and what it does not have;
// text is why nothing was read at all.
func readCondition(o *plan.Observation, text string) metav1.Condition {
	c := feedbackCondition(o.Unread, text)
	if text == "" && len(o.Absent) > 0 {
		c.Message = strings.TrimSuffix(c.Message, ".") + ". The object has nothing at: " + strings.Join(o.Absent, "; ") + "."
	}
	return c
}

// feedbackCondition says whether fields were read: unread is what
// cannot be reported, text why nothing was read at all.
func feedbackCondition(unread []string, text string) metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestReasonStatusFeedbackSynced, Message: "The fields were read.",
	}
	if text == "" && len(unread) > 0 {
		text = "Not all fields were read: " + strings.Join(unread, "; ")
	}
	if text != "" {
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestReasonStatusFeedbackSyncFailed
		c.Message = text
	}
	return c
}

// conditionsOr returns the conditions that rules and health make, or, if text
// says why they cannot be made, that they are not known.
func conditionsOr(o *plan.Observation, text string, kind schema.GroupVersionKind) []metav1.Condition {
	var list []metav1.Condition
	if text == "" {
		list = slices.Clone(o.Conditions)
	} else {
		for _, conditionType := range o.Rules.ConditionTypes(kind, o.Kinds) {
			list = append(list, metav1.Condition{
				Type: conditionType, Status: metav1.ConditionUnknown,
				Reason: workv1.ManifestReasonConditionRuleInternalError, Message: text,
			})
		}
	}
	if !o.Health {
		return list
	}
	h := o.Found
	if text != "" {
		h = health.Health{Status: health.Unknown, Reason: workv1.ManifestReasonHealthUnknown, Message: text}
	}
	for _, c := range healthConditions(h) {
		if !slices.ContainsFunc(list, func(made metav1.Condition) bool { return made.Type == c.Type }) {
			list = append(list, c)
		}
	}
	return list
}

// healthConditions says the health of an object in conditions. An object that
// is degraded has not arrived: rollouts take Progressing=False as success.
func healthConditions(h health.Health) []metav1.Condition {
	progressing := metav1.ConditionUnknown
	degraded := metav1.ConditionUnknown
	switch h.Status {
	case health.Healthy:
		progressing = metav1.ConditionFalse
		degraded = metav1.ConditionFalse
	case health.Progressing, health.Terminating:
		progressing = metav1.ConditionTrue
		degraded = metav1.ConditionFalse
	case health.Degraded:
		progressing = metav1.ConditionTrue
		degraded = metav1.ConditionTrue
	case health.Unknown:
	}
	return []metav1.Condition{
		{Type: workv1.ManifestConditionProgressing, Status: progressing, Reason: h.Reason, Message: h.Message},
		{Type: workv1.ManifestConditionDegraded, Status: degraded, Reason: h.Reason, Message: h.Message},
	}
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
