// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// reportsHealth tells whether the health of the objects is asked for.
func (p *pass) reportsHealth() bool {
	return p.options.Health || p.work.Annotations[workv1.AnnotationReportHealth] == "true"
}

// ask notes what the work asks about the object of an item.
func (p *pass) ask(it *item) {
	configs := p.work.Spec.ManifestConfigs
	if len(configs) == 0 && !p.plan.health {
		return
	}
	if p.plan.observers == nil {
		p.plan.observers = make([]*observer, len(configs)+1)
	}
	at := slices.IndexFunc(configs, func(c workv1.ManifestConfigOption) bool { return matches(c.ResourceIdentifier, it.object) })
	if at < 0 {
		at = len(configs)
	}
	if p.plan.observers[at] == nil {
		o := &observer{health: p.plan.health, kinds: p.options.Interpreter}
		if at < len(configs) {
			o.configure(&configs[at], p.rules)
		}
		p.plan.observers[at] = o
	}
	if o := p.plan.observers[at]; o.health || o.feedback != nil || o.rules != nil {
		it.observation = &observation{observer: o}
	}
}

// configure takes over what a config asks.
func (o *observer) configure(config *workv1.ManifestConfigOption, cache *rules.Cache) {
	o.watch = config.FeedbackScrapeType == workv1.FeedbackScrapeTypeWatch
	if len(config.FeedbackRules) > 0 {
		o.feedback = feedback.Compile(config.FeedbackRules)
	}
	if len(config.ConditionRules) > 0 {
		o.rules = cache.Compile(config.ConditionRules)
	}
}

// mayComplete tells whether a rule of the work makes a condition Complete.
func mayComplete(work *workv1.ManifestWork) bool {
	return slices.ContainsFunc(work.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
		return slices.ContainsFunc(c.ConditionRules, func(r workv1.ConditionRule) bool {
			return r.Condition == workv1.ManifestConditionComplete || r.Condition == ""
		})
	})
}

// isComplete tells whether the item, or the whole work, has done what it is for
// since the work changed last: then the object is not written any more.
func (p *pass) isComplete(it *item) bool {
	if !p.plan.completes {
		return false
	}
	if complete(p.stored.Status.Conditions, p.stored.Generation) {
		return true
	}
	// Those that there is no room for are left out, so an ordinal is no index.
	manifests := p.stored.Status.ResourceStatus.Manifests
	at, found := slices.BinarySearchFunc(manifests, it.ordinal, func(m workv1.ManifestCondition, ordinal int) int {
		return cmp.Compare(int(m.ResourceMeta.Ordinal), ordinal)
	})
	return found && manifests[at].ResourceMeta == it.meta() && complete(manifests[at].Conditions, p.stored.Generation)
}

// complete tells whether the condition Complete of a work or of one of its
// manifests is True for the generation.
func complete(list []metav1.Condition, generation int64) bool {
	c := meta.FindStatusCondition(list, workv1.ManifestWorkConditionComplete)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}

// leave finds out whether an object exists that is not to be written any more.
func (p *pass) leave(ctx context.Context, it *item, live apply.Live) {
	switch {
	case live.Exists:
		it.outcome.presence = presenceYes
	case live.Known:
		it.outcome.presence = presenceNo
	default:
		p.findOut(ctx, it)
	}
}
