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

// missingText is what is said about objects that are not there to be read.
const missingText = "The object does not exist on the cluster."

// statusEntry is an entry of the status about one object, as it becomes and as it was.
type statusEntry struct {
	workv1.ManifestCondition
	had        *workv1.ManifestCondition // nil if there was none
	generation int64
	// asksFeedback says that values of some object of the work are asked for.
	asksFeedback bool
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

// setConditions makes the conditions of a manifest, one after the other.
func (e *statusEntry) setConditions(it *plan.ManifestItem) {
	e.setApplied(it)
	e.setAvailable(it)
	e.setObserved(it)
	e.setUnasked(it)
	e.noteCompletion()
	e.keepForeign()
}

// setApplied says whether the object is as the manifest says.
func (e *statusEntry) setApplied(it *plan.ManifestItem) {
	c := metav1.Condition{
		Type: workv1.ManifestConditionApplied, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestReasonAppliedManifestComplete, Message: "The object matches the manifest.",
	}
	if it.Outcome.Note != "" {
		c.Message = it.Outcome.Note
	}
	switch problem := it.ObjectProblem(); {
	case problem.Trouble != apply.TroubleNone:
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestReasonAppliedManifestFailed
		c.Message = problem.Message
		if problem.Trouble == apply.TroubleExpression {
			c.Reason = workv1.ManifestReasonAppliedManifestSSAIgnoreFieldError
		}
	case it.Observation != nil && it.Observation.Rules != nil:
		for _, problem := range it.Observation.Rules.RuleProblems() {
			c.Message += " Not followed: " + problem + "."
		}
	}
	e.setCondition(c)
}

// setAvailable says whether the object exists.
func (e *statusEntry) setAvailable(it *plan.ManifestItem) { e.setCondition(availableCondition(it)) }

func availableCondition(it *plan.ManifestItem) metav1.Condition {
	c := metav1.Condition{Type: workv1.ManifestConditionAvailable}
	switch presence := it.ObjectPresence(); {
	case presence == plan.PresenceYes:
		c.Status = metav1.ConditionTrue
		c.Reason = workv1.ManifestReasonResourceAvailable
		c.Message = "The object exists on the cluster."
	case presence == plan.PresenceNo:
		c.Status = metav1.ConditionFalse
		c.Reason = workv1.ManifestReasonResourceNotAvailable
		c.Message = missingText
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

// setObserved adds what was observed of the object, if anything is asked about it.
func (e *statusEntry) setObserved(it *plan.ManifestItem) {
	if it.Observation != nil {
		e.addObserved(it.Observation)
	}
}

// setUnasked says that no values of the object are asked for, though those of others are.
func (e *statusEntry) setUnasked(it *plan.ManifestItem) {
	if !e.asksFeedback || !it.IsDeliverable() || it.Observation != nil && it.Observation.ReportsValues() {
		return
	}
	e.setCondition(metav1.Condition{
		Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestReasonNoStatusFeedbackSynced, Message: "No feedback rule applies to this object.",
	})
}

// noteCompletion says of an object that is applied that this is over.
func (e *statusEntry) noteCompletion() {
	applied := meta.FindStatusCondition(e.Conditions, workv1.ManifestConditionApplied)
	if applied.Status == metav1.ConditionTrue && plan.IsConditionComplete(e.Conditions, e.generation) {
		applied.Message = "The object has completed and is not applied again until the work changes."
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

// addObserved adds what was observed of the object.
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
		e.setValues(o, text)
	}
	for _, c := range conditionsOr(o, text, e.manifestKind()) {
		e.setCondition(c)
	}
}

// setValues reports the values of the object; text is why nothing was read at all.
func (e *statusEntry) setValues(o *plan.Observation, text string) {
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
