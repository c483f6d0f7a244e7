// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// QuietRetries is how many reads in a row of an object may fail for a reason
// that may be over soon before the work says so.
const QuietRetries = 4

// ObjectObserver is what is asked about the objects of one manifestConfig, which
// share it.
type ObjectObserver struct {
	Feedback *feedback.CompiledFeedbackRules
	Rules    *rules.ConditionRuleSet
	Kinds    interpret.Chain // knows what objects of a kind say
	Watch    bool            // feedbackScrapeType Watch
	Health   bool
	// Implied says that no rule of the work asks whether the objects are Complete, and it is
	// asked all the same: the cluster deletes them once they are.
	Implied bool
	// State says that the state of the objects is reported, instead of what feedback
	// rules select.
	State bool
}

// ReportsValues reports whether values of objects are reported.
func (o *ObjectObserver) ReportsValues() bool { return o.Feedback != nil || o.State }

// Observation is what is asked about the object of an item, and what was found.
type Observation struct {
	*ObjectObserver
	// Seen is the resourceVersion of the object that the findings are about, ""
	// if it was not read since the work changed.
	Seen string
	// revision is of what users of the hub say of the kind that it was seen by.
	revision uint64
	Presence Presence
	// Problem is why the object could not be read the last time.
	Problem  apply.ObjectProblem
	Failures int
	// Next is when to read the object again even if nothing tells of a change;
	// zero is never.
	Next time.Time

	Values     []workv1.FeedbackValue
	Unread     []string // what feedback rules ask for and cannot be reported
	Absent     []string // paths of feedback rules that match nothing
	Conditions []metav1.Condition
	Found      health.Health
	// Misjudged is why a customization of the kind did not say what the object says;
	// nil if there is none, or it did.
	Misjudged error
	// OutOfTime says that the owner of the work had no time left for all expressions: they are evaluated again.
	OutOfTime bool
	// Unreflected says that the status is not among the values for that reason: the one
	// that was reported last stays.
	Unreflected bool
}

// FollowRevision has the object looked at anew if users of the hub say something else of what is
// reported than when it was seen.
func (o *Observation) FollowRevision(want *DesiredObject) {
	if o.revision != want.Revision.Report {
		o.Seen = ""
		o.revision = want.Revision.Report
	}
}

// LastingProblem returns why the object cannot be read, unless that may be over soon.
func (o *Observation) LastingProblem() apply.ObjectProblem {
	if o.Problem.Trouble == apply.TroublePassing && o.Failures <= QuietRetries {
		return apply.ObjectProblem{}
	}
	return o.Problem
}

// EvaluateObject notes what an object says, unless the context ends: then the object has
// not been seen, and is read again. Left is what the work may still cost.
func (o *Observation) EvaluateObject(ctx context.Context, object *unstructured.Unstructured, options feedback.ValueOptions, left *budget.Budget) {
	found := Observation{ObjectObserver: o.ObjectObserver, revision: o.revision, Presence: PresenceYes, Seen: object.GetResourceVersion(), Next: o.Next}
	switch {
	case o.State:
		said := feedback.ReportedStateOf(object, o.Kinds)
		found.Values = said.Values
		found.Unread = said.Unread
		found.Unreflected = said.Unreflected
		found.Misjudged = said.Failed
	case o.Feedback != nil:
		read := o.Feedback.ReadValues(object, o.Kinds, left, options)
		found.Values = read.Values
		found.Unread = read.Unread
		found.Absent = read.Absent
	}
	if o.Rules != nil {
		found.Conditions = o.Rules.EvaluateRules(ctx, object, o.Kinds, left)
	}
	if o.Health {
		found.Found = o.Kinds.AssessHealth(object)
	}
	if ctx.Err() != nil {
		o.Next = time.Time{}
		return
	}
	*o = found
}

// MarkLost notes that there is nothing to read.
func (o *Observation) MarkLost(presence Presence, problem apply.ObjectProblem) {
	*o = Observation{ObjectObserver: o.ObjectObserver, revision: o.revision, Presence: presence, Problem: problem, Next: o.Next}
}

// addObservation notes what the work asks about the object of an item.
func (p *Plan) addObservation(it *ManifestItem, configs []workv1.ManifestConfigOption, finder *KindFinder) {
	if len(configs) == 0 && !p.Options.Health && !p.Options.State && !p.Options.Completes && !it.Desired.Expires {
		return
	}
	if p.observers == nil {
		p.observers = make([]*ObjectObserver, len(configs)+1)
	}
	at := slices.IndexFunc(configs, func(c workv1.ManifestConfigOption) bool {
		return matchesObject(c.ResourceIdentifier, it.Desired.Object)
	})
	if at < 0 {
		at = len(configs)
	}
	if p.observers[at] == nil {
		p.observers[at] = p.newObserver(configs[at:], finder)
	}
	o := p.observers[at]
	if it.Desired.Expires {
		o = p.completionObserver(o, rulesAt(configs, at), finder)
	}
	if o.Health || o.ReportsValues() || o.Rules != nil {
		it.Desired.Observer = o
		it.Observation = &Observation{ObjectObserver: o}
	}
}

// newObserver returns an observer by the first of the configs, if there is one.
func (p *Plan) newObserver(configs []workv1.ManifestConfigOption, finder *KindFinder) *ObjectObserver {
	o := &ObjectObserver{Health: p.Options.Health, Kinds: finder.interpreterChainOf(p), State: p.Options.State, Watch: p.Options.State}
	if len(configs) > 0 {
		o.applyConfig(&configs[0], finder.Rules)
	}
	if p.Options.Completes && o.Rules == nil {
		o.Rules = finder.Rules.CompileShared(completeRules())
	}
	return o
}

// rulesAt returns the rules of a config, none if there is no such config.
func rulesAt(configs []workv1.ManifestConfigOption, at int) []workv1.ConditionRule {
	if at >= len(configs) {
		return nil
	}
	return configs[at].ConditionRules
}

// completionObserver returns an observer that asks what another one with the given rules does, and
// whether objects are Complete.
func (p *Plan) completionObserver(o *ObjectObserver, given []workv1.ConditionRule, finder *KindFinder) *ObjectObserver {
	if p.Options.Completes || slices.ContainsFunc(given, asksComplete) { // which asks it already
		return o
	}
	asking := *o
	asking.Implied = true
	asking.Watch = true
	asking.Rules = finder.Rules.CompileShared(slices.Concat(given, completeRules()))
	p.observers = append(p.observers, &asking)
	return &asking
}

// isExpiring reports whether a manifest is a Job that the cluster deletes by itself some time
// after it has finished.
func isExpiring(manifest *apply.Manifest, raw []byte) bool {
	if manifest.Kind != batchv1.SchemeGroupVersion.WithKind("Job") {
		return false
	}
	var job struct {
		Spec struct {
			Lifetime *json.RawMessage `json:"ttlSecondsAfterFinished"`
		} `json:"spec"`
	}
	return utiljson.Unmarshal(raw, &job) == nil && job.Spec.Lifetime != nil
}

// applyConfig takes over what a config asks.
func (o *ObjectObserver) applyConfig(config *workv1.ManifestConfigOption, cache *rules.RuleSetCache) {
	o.Watch = o.Watch || config.FeedbackScrapeType == workv1.FeedbackScrapeTypeWatch
	if len(config.FeedbackRules) > 0 {
		o.Feedback = feedback.CompileFeedbackRules(config.FeedbackRules)
	}
	if len(config.ConditionRules) > 0 {
		o.Rules = cache.CompileShared(config.ConditionRules)
	}
}

// ObservedItems returns the items whose objects are asked about, as far as it is
// known which these are.
func (p *Plan) ObservedItems() []*ManifestItem {
	var items []*ManifestItem
	for _, it := range p.Items {
		if it.Observation != nil && it.IsDeliverable() {
			items = append(items, it)
		}
	}
	return items
}

// AsksFeedback reports whether values of an object are asked for.
func (p *Plan) AsksFeedback() bool {
	return slices.ContainsFunc(p.observers, func(o *ObjectObserver) bool { return o != nil && o.ReportsValues() })
}

// HasRules reports whether there are condition rules for an object.
func (p *Plan) HasRules() bool {
	return slices.ContainsFunc(p.observers, func(o *ObjectObserver) bool { return o != nil && o.Rules != nil })
}

// mayComplete reports whether a rule of the work makes a condition Complete.
func mayComplete(work *workv1.ManifestWork) bool {
	return slices.ContainsFunc(work.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
		return slices.ContainsFunc(c.ConditionRules, asksComplete)
	})
}

func asksComplete(r workv1.ConditionRule) bool {
	return r.Condition == workv1.ManifestConditionComplete || r.Condition == ""
}

// IsComplete reports whether the object, or the whole work, has done what it is for
// since the work changed last, as its status says: then the object is not
// written any more.
func (p *Plan) IsComplete(work *workv1.ManifestWork, want *DesiredObject) bool {
	if !p.completes {
		return false
	}
	if IsConditionComplete(work.Status.Conditions, work.Generation) {
		return true
	}
	// Those that there is no room for are left out, so an ordinal is no index.
	manifests := work.Status.ResourceStatus.Manifests
	at, found := slices.BinarySearchFunc(manifests, want.Ordinal, func(m workv1.ManifestCondition, ordinal int) int {
		return cmp.Compare(int(m.ResourceMeta.Ordinal), ordinal)
	})
	return found && manifests[at].ResourceMeta == want.ManifestMeta() && IsConditionComplete(manifests[at].Conditions, work.Generation)
}

// IsConditionComplete reports whether the condition Complete of a work or of one of its
// manifests is True for the generation.
func IsConditionComplete(list []metav1.Condition, generation int64) bool {
	c := meta.FindStatusCondition(list, workv1.ManifestWorkConditionComplete)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}
