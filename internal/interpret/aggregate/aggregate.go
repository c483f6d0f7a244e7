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

// ClusterItem is what one cluster reports of its object.
type ClusterItem struct {
	Cluster string
	// Status is the last one that is known; nil if there is none.
	Status map[string]any
	// Applied reports whether the object is there as it should be.
	Applied bool
	// Message says why it is not, or what else there is to say of it; "" is nothing.
	Message string
	// Health is the verdict on the object: Healthy, Unhealthy, or Unknown, also for
	// a cluster that is silent, whose Status is then an old one.
	Health string
}

// isHealthUnknown reports whether nobody knows how the object is now.
func (i ClusterItem) isHealthUnknown() bool { return i.Health == "Unknown" }

// seesGeneration reports whether a status that is about a generation of the object is about
// the template as it is.
func (i ClusterItem) seesGeneration(generation int64, template map[string]any) bool {
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

// ReportedItems returns the items that have a status.
func ReportedItems(items []ClusterItem) []ClusterItem {
	return slices.DeleteFunc(slices.Clone(items), func(i ClusterItem) bool { return len(i.Status) == 0 })
}

// AggregationRules are what is known of a kind.
type AggregationRules struct {
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

// MergeUsualStatus returns the status of a template of the usual shape: counters of
// replicas, observedGeneration and conditions. It is nil if the clusters report
// nothing of this shape.
func MergeUsualStatus(template map[string]any, items []ClusterItem, rules AggregationRules) map[string]any {
	reported := ReportedItems(items)
	looksLike := func(i ClusterItem) bool { return hasUsualShape(i.Status, rules.Sums) }
	if !rules.Known && !rules.Observes && !hasUsualShape(fields.Map(template, "status"), rules.Sums) && !slices.ContainsFunc(reported, looksLike) {
		return nil
	}
	status := map[string]any{}
	if !rules.Known && len(items) > 0 && len(reported) == len(items) {
		takeAgreedFields(status, items)
	}
	SumCounters(status, reported, rules.Sums...)
	SetObservedGeneration(status, template, items)
	if rules.Observes && len(items) == 0 {
		status[observed] = generationOf(template)
	}
	if conditions := MergeConditions(template, items, rules.Done); len(conditions) > 0 {
		status["conditions"] = conditions
	}
	return status
}

// hasUsualShape reports whether a status is of the usual shape.
func hasUsualShape(status map[string]any, others []string) bool {
	if _, ok := fields.Int(status, observed); ok || len(fields.List(status, "conditions")) > 0 {
		return true
	}
	for name, value := range status {
		if _, ok := fields.Whole(value); ok && isCounterField(name, others) {
			return true
		}
	}
	return false
}

func isCounterField(name string, others []string) bool {
	return name == "replicas" || strings.HasSuffix(name, "Replicas") || slices.Contains(others, name)
}

// takeAgreedFields takes what is the same in all clusters, besides what is summed up.
func takeAgreedFields(status map[string]any, items []ClusterItem) {
	for name, value := range items[0].Status {
		if slices.Contains([]string{observed, Generation, TemplateGeneration, "conditions"}, name) {
			continue
		}
		if !slices.ContainsFunc(items, func(i ClusterItem) bool { return !SameValue(value, i.Status[name]) }) {
			status[name] = value
		}
	}
}

// SumCounters adds up counters: those of replicas, and others with these names. Kubernetes keeps
// them in 32 bits, and never below 0: what a cluster reports beyond that counts as the
// bound, or else the hub would refuse the status of all clusters.
func SumCounters(status map[string]any, reported []ClusterItem, others ...string) {
	for _, item := range reported {
		for name, value := range item.Status {
			if _, ok := fields.Whole(value); ok && isCounterField(name, others) {
				delete(status, name)
			}
		}
	}
	for _, item := range reported {
		for name, value := range item.Status {
			if n, ok := fields.Whole(value); ok && isCounterField(name, others) {
				status[name] = min(math.MaxInt32, fields.IntOr(0, status, name)+max(0, min(math.MaxInt32, n)))
			}
		}
	}
}

// SetObservedGeneration sets observedGeneration, if clusters or the template have one: it is the
// template's generation if each cluster has seen it, as it is with no cluster, and
// less before.
func SetObservedGeneration(status, template map[string]any, items []ClusterItem) {
	before, has := fields.Int(template, "status", observed)
	all := true
	for _, item := range items {
		seen, ok := fields.Int(item.Status, observed)
		has = has || ok
		all = all && ok && item.seesGeneration(seen, template)
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

// MergePhases returns the phase of all clusters: the first of these that one of them
// has. Those that have not reported yet are in the one that is given, and
// phases that are not known do not count.
func MergePhases(items []ClusterItem, unreported string, order ...string) string {
	for _, phase := range order {
		if slices.ContainsFunc(items, func(i ClusterItem) bool {
			return fields.String(i.Status, "phase") == phase || len(i.Status) == 0 && phase == unreported
		}) {
			return phase
		}
	}
	return unreported
}
