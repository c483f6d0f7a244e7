// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"math"
	"slices"
	"strings"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

const observed = "observedGeneration"

// Generation and TemplateGeneration are beside observedGeneration in the status
// that a cluster reports: the object's own generation, and its template's.
const (
	Generation         = "generation"
	TemplateGeneration = "resourceTemplateGeneration"
)

// Item is what one cluster reports of its object.
type Item struct {
	Cluster string
	// Status is the last one that is known; nil if there is none.
	Status map[string]any
	// Applied tells whether the object is there as it should be.
	Applied bool
	// Message says why it is not, or what else there is to say of it; "" is nothing.
	Message string
	// Health is the verdict on the object: Healthy, Unhealthy, or Unknown, also for
	// a cluster that is silent, whose Status is then an old one.
	Health string
}

// silent tells whether nobody knows how the object is now.
func (i Item) silent() bool { return i.Health == "Unknown" }

// sees tells whether a status that is about a generation of the object is about
// the template as it is.
func (i Item) sees(generation int64, template map[string]any) bool {
	if generation < fields.IntOr(0, i.Status, Generation) {
		return false
	}
	if madeFrom, ok := fields.Int(i.Status, TemplateGeneration); ok {
		return madeFrom >= generationOf(template)
	}
	return i.Applied
}

func generationOf(template map[string]any) int64 {
	return fields.IntOr(0, template, "metadata", Generation)
}

// Reported returns the items that have a status.
func Reported(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return len(i.Status) == 0 })
}

// Rules are what is known of a kind.
type Rules struct {
	// Known are kinds whose statuses are of the usual shape for sure. Of others a
	// status must look like it, and what all clusters agree on is taken as well.
	Known bool
	// Sums are fields that are summed up besides those that end with Replicas.
	Sums []string
	// Observes tells that the status of the kind has an observedGeneration, also
	// where there is no cluster that could report one.
	Observes bool
	// Done has, for a condition, the reason that says least: another goes before it.
	Done map[string]string
}

// Usual returns the status of a template of the usual shape: counters of
// replicas, observedGeneration and conditions. It is nil if the clusters report
// nothing of this shape.
func Usual(template map[string]any, items []Item, rules Rules) map[string]any {
	reported := Reported(items)
	looksLike := func(i Item) bool { return usual(i.Status, rules.Sums) }
	if !rules.Known && !rules.Observes && !usual(fields.Map(template, "status"), rules.Sums) && !slices.ContainsFunc(reported, looksLike) {
		return nil
	}
	status := map[string]any{}
	if !rules.Known && len(items) > 0 && len(reported) == len(items) {
		agree(status, items)
	}
	Sum(status, reported, rules.Sums...)
	Observe(status, template, items)
	if rules.Observes && len(items) == 0 {
		status[observed] = generationOf(template)
	}
	if conditions := Conditions(template, items, rules.Done); len(conditions) > 0 {
		status["conditions"] = conditions
	}
	return status
}

// usual tells whether a status is of the usual shape.
func usual(status map[string]any, others []string) bool {
	if _, ok := fields.Int(status, observed); ok || len(fields.List(status, "conditions")) > 0 {
		return true
	}
	for name, value := range status {
		if _, ok := fields.Whole(value); ok && counter(name, others) {
			return true
		}
	}
	return false
}

func counter(name string, others []string) bool {
	return name == "replicas" || strings.HasSuffix(name, "Replicas") || slices.Contains(others, name)
}

// agree takes what is the same in all clusters, besides what is summed up.
func agree(status map[string]any, items []Item) {
	for name, value := range items[0].Status {
		if slices.Contains([]string{observed, Generation, TemplateGeneration, "conditions"}, name) {
			continue
		}
		if !slices.ContainsFunc(items, func(i Item) bool { return !Same(value, i.Status[name]) }) {
			status[name] = value
		}
	}
}

// Sum adds up counters: those of replicas, and others with these names. Kubernetes keeps
// them in 32 bits, and never below 0: what a cluster reports beyond that counts as the
// bound, or else the hub would refuse the status of all clusters.
func Sum(status map[string]any, reported []Item, others ...string) {
	for _, item := range reported {
		for name, value := range item.Status {
			if _, ok := fields.Whole(value); ok && counter(name, others) {
				delete(status, name)
			}
		}
	}
	for _, item := range reported {
		for name, value := range item.Status {
			if n, ok := fields.Whole(value); ok && counter(name, others) {
				status[name] = min(math.MaxInt32, fields.IntOr(0, status, name)+max(0, min(math.MaxInt32, n)))
			}
		}
	}
}

// Observe sets observedGeneration, if clusters or the template have one: it is the
// template's generation if each cluster has seen it, as it is with no cluster, and
// less before.
func Observe(status, template map[string]any, items []Item) {
	before, has := fields.Int(template, "status", observed)
	all := true
	for _, item := range items {
		seen, ok := fields.Int(item.Status, observed)
		has = has || ok
		all = all && ok && item.sees(seen, template)
	}
	if has {
		status[observed] = upTo(generationOf(template), before, all)
	}
}

// upTo returns the generation that is observed if it is by all, and else one
// that was before.
func upTo(generation, before int64, all bool) int64 {
	if all {
		return generation
	}
	return max(0, min(before, generation-1))
}

// Phase returns the phase of all clusters: the first of these that one of them
// has. Those that have not reported yet are in the one that is given, and
// phases that are not known do not count.
func Phase(items []Item, unreported string, order ...string) string {
	for _, phase := range order {
		if slices.ContainsFunc(items, func(i Item) bool {
			return fields.String(i.Status, "phase") == phase || len(i.Status) == 0 && phase == unreported
		}) {
			return phase
		}
	}
	return unreported
}
