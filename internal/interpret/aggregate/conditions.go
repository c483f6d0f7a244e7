// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

const (
	isTrue    = "True"
	isFalse   = "False"
	isUnknown = "Unknown"

	// notReported is the reason of a condition that a cluster does not have, and
	// silent that of one which may be otherwise by now.
	notReported = "NotReported"
	silent      = "ClusterSilent"

	// messageBytesMax is the length of a message or a reason in bytes.
	messageBytesMax = 1024

	// typesMax is how many conditions all clusters and the template have together at
	// most, and typeBytesMax how long the name of one is, as the API server has it.
	typesMax     = 256
	typeBytesMax = 316
)

// conditionEntry is what a cluster says about one condition.
type conditionEntry struct {
	item ClusterItem
	// raw is the condition, nil if the cluster does not have it.
	raw                  map[string]any
	status, reason, text string
	// ours tells that the text is about the cluster, and not its own.
	ours bool
}

// reportedConditions are the conditions that one cluster reports, or that the template has.
type reportedConditions struct {
	item   ClusterItem
	types  []string // in the order of the conditions
	byType map[string]map[string]any
}

// MergeConditions merges the conditions of all clusters. One by which an object
// should be True is True if it is so everywhere; one that tells of trouble is
// True if it is so anywhere. The message has who says what: "a=text, b=text",
// and after that which clusters have not reported.
//
// A condition that the template has is not forgotten when the clusters change:
// it is Unknown until they report it. What a cluster reports that is no condition, or
// has a field of another type, counts as not reported: the hub would refuse the status
// of all clusters with it.
func MergeConditions(template map[string]any, items []ClusterItem, done map[string]string) []any {
	before := reportedBy(ClusterItem{Status: fields.Map(template, "status")})
	all := make([]reportedConditions, 0, len(items))
	for _, item := range items {
		all = append(all, reportedBy(item))
	}
	var merged []any
	for _, name := range conditionTypes(append(slices.Clip(all), before)) {
		if c := mergeCondition(name, template, before.byType[name], all, done[name]); c != nil {
			merged = append(merged, c)
		}
	}
	return merged
}

// reportedBy reads the conditions of a status. Of two of a type the first counts.
func reportedBy(item ClusterItem) reportedConditions {
	r := reportedConditions{item: item, byType: map[string]map[string]any{}}
	for _, value := range fields.List(item.Status, "conditions") {
		c := conditionOf(value)
		name := fields.String(c, "type")
		if name == "" || len(name) > typeBytesMax || r.byType[name] != nil {
			continue
		}
		r.types = append(r.types, name)
		r.byType[name] = c
	}
	return r
}

// conditionOf returns the fields of a condition that are known; nil if one of them has
// another type than it has in Kubernetes.
func conditionOf(value any) map[string]any {
	raw, _ := value.(map[string]any)
	c := map[string]any{}
	for _, name := range append([]string{"type", "status", "reason", "message"}, conditionTimes()...) {
		switch field := raw[name].(type) {
		case nil:
		case string:
			c[name] = field
		default:
			return nil
		}
	}
	if seen := raw[observed]; seen != nil {
		generation, ok := fields.Whole(seen)
		if !ok {
			return nil
		}
		c[observed] = generation
	}
	return c
}

// conditionTimes are the fields of a condition that are times.
func conditionTimes() []string {
	return []string{"lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"}
}

// conditionTypes returns the types of all conditions, in the order of their clusters, up to a
// limit.
func conditionTypes(all []reportedConditions) []string {
	var names []string
	has := map[string]bool{}
	for _, r := range all {
		for _, name := range r.types {
			if !has[name] && len(names) < typesMax {
				has[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

func mergeCondition(name string, template, before map[string]any, all []reportedConditions, done string) map[string]any {
	bad := isTroubleCondition(name)
	entries := make([]conditionEntry, 0, len(all))
	for _, r := range all {
		e := entryOf(r.item, r.byType[name], bad)
		if e.raw != nil || !bad { // trouble that nobody tells of is none
			entries = append(entries, e)
		}
	}
	if bad && len(entries) == 0 {
		return nil
	}
	status := overallStatus(entries, bad)
	deciding := slices.DeleteFunc(slices.Clone(entries), func(e conditionEntry) bool { return e.status != status })
	c := map[string]any{"type": name, "status": status, "reason": notReported, "message": "No cluster has the object."}
	if len(deciding) > 0 {
		e := deciding[max(0, slices.IndexFunc(deciding, func(e conditionEntry) bool { return e.reason != done }))]
		c = maps.Clone(e.raw)
		if c == nil {
			c = map[string]any{"type": name}
		}
		c["status"] = status
		delete(c, "message")
		if e.reason != "" {
			c["reason"] = cutMessage(e.reason)
		}
		told := deciding
		if status == isUnknown { // what the others report says more than that some do not
			told = entries
		}
		if message := messageOf(told, bad); message != "" {
			c["message"] = message
		}
	}
	setConditionTimes(c, before, entries, bad)
	observeCondition(c, before, entries, template)
	return c
}

// entryOf returns what a cluster says about a condition; raw is nil if it does not have it.
func entryOf(item ClusterItem, raw map[string]any, bad bool) conditionEntry {
	e := conditionEntry{item: item, raw: raw}
	switch {
	case len(item.Status) == 0:
		e.status = isUnknown
		e.reason = notReported
		e.text = "has not reported yet"
		e.ours = true
	case e.raw == nil:
		e.status = isUnknown
		e.reason = notReported
		e.text = "has not reported this condition"
		e.ours = true
	case !bad && item.isHealthUnknown() && e.raw["status"] == isTrue:
		e.status = isUnknown
		e.reason = silent
		e.text = "does not respond; when it did, the condition was True"
		e.ours = true
	default:
		e.status, e.reason = fields.String(e.raw, "status"), fields.String(e.raw, "reason")
		if e.status != isTrue && e.status != isFalse {
			e.status = isUnknown
		}
		e.text = fields.String(e.raw, "message")
	}
	return e
}

// bestStatus is the status of a condition by which all is well, worst the opposite.
func bestStatus(bad bool) string {
	if bad {
		return isFalse
	}
	return isTrue
}

func worstStatus(bad bool) string { return bestStatus(!bad) }

// overallStatus is the status of all together.
func overallStatus(entries []conditionEntry, bad bool) string {
	has := func(status string) bool {
		return slices.ContainsFunc(entries, func(e conditionEntry) bool { return e.status == status })
	}
	switch {
	case has(worstStatus(bad)):
		return worstStatus(bad)
	case len(entries) == 0 || has(isUnknown):
		return isUnknown
	}
	return bestStatus(bad)
}

// messageOf says what each cluster reports, as "a=text, b=text", and then which
// clusters have not reported. A cluster that is well and says nothing is left out;
// of one that is not well there is its reason, or its name at least.
func messageOf(entries []conditionEntry, bad bool) string {
	var said, missing []string
	length := 0
	for _, e := range entries {
		text := e.text
		well := e.status == bestStatus(bad)
		if text == "" && !well {
			text = e.reason
		}
		switch {
		case length > messageBytesMax || text == "" && well:
		case e.ours:
			missing = append(missing, e.item.Cluster+": "+text)
		default:
			said = append(said, strings.TrimSuffix(e.item.Cluster+"="+text, "="))
			length += len(e.item.Cluster) + len(text)
		}
	}
	if len(said) > 0 {
		missing = append([]string{strings.Join(said, ", ")}, missing...)
	}
	return cutMessage(strings.Join(missing, "; "))
}

func cutMessage(message string) string {
	if len(message) <= messageBytesMax {
		return message
	}
	return strings.ToValidUTF8(message[:messageBytesMax-len("...")], "") + "..."
}

// setConditionTimes sets the times of a condition. lastTransitionTime stays as long as the
// status does. A status that one cluster decides holds since the first of those that
// have it, one that takes all of them since the last, and neither begins before the
// status that it follows. All other times are the latest that a cluster has.
func setConditionTimes(c, before map[string]any, entries []conditionEntry, bad bool) {
	for _, name := range conditionTimes() {
		all := []any{before[name]}
		for _, e := range entries {
			all = append(all, e.raw[name])
		}
		at := LatestTime(all...)
		if name == "lastTransitionTime" {
			at = transitionTime(c, before, entries, bad)
		}
		delete(c, name)
		if at != nil {
			c[name] = at
		}
	}
}

// transitionTime returns since when a condition has its status, nil if nobody knows.
func transitionTime(c, before map[string]any, entries []conditionEntry, bad bool) any {
	const transition = "lastTransitionTime"
	if at, ok := before[transition].(string); ok && before["status"] == c["status"] {
		return at
	}
	var of, all []any
	for _, e := range entries {
		all = append(all, e.raw[transition])
		if e.status == c["status"] {
			of = append(of, e.raw[transition])
		}
	}
	if first := EarliestTime(of...); c["status"] == worstStatus(bad) && first != nil {
		return LatestTime(before[transition], first)
	}
	return LatestTime(append(all, before[transition])...)
}

// observeCondition sets the generation that a condition is about, if clusters
// say it.
func observeCondition(c, before map[string]any, entries []conditionEntry, template map[string]any) {
	has := false
	all := len(entries) > 0
	for _, e := range entries {
		seen, ok := fields.Int(e.raw, observed)
		has = has || ok
		all = all && ok && e.item.seesGeneration(seen, template)
	}
	delete(c, observed)
	if has {
		c[observed] = upTo(generationOf(template), fields.IntOr(0, before, observed), all)
	}
}

// ConditionOf returns the first condition of a type in a list, nil if there is
// none.
func ConditionOf(list []any, name string) map[string]any {
	for _, value := range list {
		if c, ok := value.(map[string]any); ok && c["type"] == name {
			return c
		}
	}
	return nil
}

// LatestTime returns the latest of some times, nil if none is one.
func LatestTime(times ...any) any { return pickTime(times, time.Time.After) }

// EarliestTime returns the earliest of some times, nil if none is one.
func EarliestTime(times ...any) any { return pickTime(times, time.Time.Before) }

func pickTime(times []any, better func(a, b time.Time) bool) any {
	var picked any
	var at time.Time
	for _, value := range times {
		text, _ := value.(string)
		t, err := time.Parse(time.RFC3339, text)
		// What is no time is not looked at, nor what is one in another zone only: in UTC, nobody could read it.
		if year := t.UTC().Year(); err == nil && year > 0 && year <= 9999 && (picked == nil || better(t, at)) {
			picked = value
			at = t
		}
	}
	return picked
}
