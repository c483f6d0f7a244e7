// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/interpret/aggregate"
)

type object = map[string]any

const (
	early = "2026-01-01T00:00:00Z"
	late  = "2026-01-02T00:00:00Z"
)

// item is a cluster whose object is applied and Healthy.
func item(cluster string, status object) aggregate.ClusterItem {
	return aggregate.ClusterItem{Cluster: cluster, Status: status, Applied: true, Health: "Healthy"}
}

func condition(name, status, reason, message string) object {
	return object{"type": name, "status": status, "reason": reason, "message": message}
}

func conditions(list ...any) object { return object{"conditions": list} }

func TestUsual(t *testing.T) {
	t.Parallel()
	template := object{"metadata": object{"generation": int64(3)}, "status": object{"observedGeneration": int64(2)}}
	seen := func(replicas, observed, generation int64) object {
		return object{"readyReplicas": replicas, "observedGeneration": observed, "generation": generation}
	}
	for name, c := range map[string]struct {
		rules aggregate.AggregationRules
		items []aggregate.ClusterItem
		want  object
	}{
		"counters are summed, and all have seen it": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{item("a", seen(1, 5, 5)), item("b", seen(2, 7, 7))},
			object{"readyReplicas": int64(3), "observedGeneration": int64(3)},
		},
		"a counter that can be none counts as the bound": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{item("a", object{"readyReplicas": int64(-1)}), item("b", object{"readyReplicas": int64(2)}), item("c", object{"replicas": int64(1) << 62}), item("d", object{"replicas": int64(1) << 62})},
			object{"readyReplicas": int64(2), "replicas": int64(1<<31 - 1), "observedGeneration": int64(2)},
		},
		"one has not seen its own object": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{item("a", seen(1, 5, 5)), item("b", seen(2, 6, 7))},
			object{"readyReplicas": int64(3), "observedGeneration": int64(2)},
		},
		"one has not got the template": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{item("a", seen(1, 5, 5)), {Cluster: "b", Status: seen(2, 7, 7)}},
			object{"readyReplicas": int64(3), "observedGeneration": int64(2)},
		},
		"one says from which template its object is": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{{Cluster: "a", Status: object{"observedGeneration": int64(1), "generation": int64(1), "resourceTemplateGeneration": int64(3)}}},
			object{"observedGeneration": int64(3)},
		},
		"and it is an earlier one": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{item("a", object{"observedGeneration": int64(1), "generation": int64(1), "resourceTemplateGeneration": int64(2)})},
			object{"observedGeneration": int64(2)},
		},
		"one has not reported": {
			aggregate.AggregationRules{Known: true},
			[]aggregate.ClusterItem{item("a", seen(1, 5, 5)), item("b", nil)},
			object{"readyReplicas": int64(1), "observedGeneration": int64(2)},
		},
		"other counters by name": {
			aggregate.AggregationRules{Known: true, Sums: []string{"active"}},
			[]aggregate.ClusterItem{item("a", object{"active": int64(1), "other": int64(1)}), item("b", object{"active": int64(4)})},
			object{"active": int64(5), "observedGeneration": int64(2)},
		},
		"of an unknown kind, what all agree on": {
			aggregate.AggregationRules{},
			[]aggregate.ClusterItem{item("a", object{"replicas": int64(1), "selector": "x", "url": "a"}), item("b", object{"replicas": int64(1), "selector": "x", "url": "b"})},
			object{"replicas": int64(2), "selector": "x", "observedGeneration": int64(2)},
		},
		"not while one has not reported": {
			aggregate.AggregationRules{},
			[]aggregate.ClusterItem{item("a", object{"replicas": int64(1), "selector": "x"}), item("b", nil)},
			object{"replicas": int64(1), "observedGeneration": int64(2)},
		},
	} {
		if diff := cmp.Diff(c.want, aggregate.MergeUsualStatus(template, c.items, c.rules)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, c := range map[string]struct {
		rules aggregate.AggregationRules
		given object
		want  object
	}{
		"the kind observes":                    {aggregate.AggregationRules{Observes: true}, object{"metadata": object{"generation": int64(4)}}, object{"observedGeneration": int64(4)}},
		"the template has observed":            {aggregate.AggregationRules{}, template, object{"observedGeneration": int64(3)}},
		"the kind may have no such generation": {aggregate.AggregationRules{Known: true}, object{"metadata": object{"generation": int64(4)}}, object{}},
	} {
		if diff := cmp.Diff(c.want, aggregate.MergeUsualStatus(c.given, nil, c.rules)); diff != "" {
			t.Errorf("no cluster, and %s (-want +got):\n%s", name, diff)
		}
	}
	if got := aggregate.MergeUsualStatus(object{}, []aggregate.ClusterItem{item("a", object{"url": "x"})}, aggregate.AggregationRules{}); got != nil {
		t.Errorf("a status of another shape gives %v", got)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	ready := func(status, reason, message string) object {
		return conditions(condition("Ready", status, reason, message))
	}
	failed := func(status, message string) object { return conditions(condition("Failed", status, "Why", message)) }
	silent := item("b", ready("True", "Up", "fine"))
	silent.Health = "Unknown"
	for name, c := range map[string]struct {
		items []aggregate.ClusterItem
		done  string
		want  []any
	}{
		"True everywhere": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "fine")), item("b", ready("True", "Up", "fine"))},
			"",
			[]any{condition("Ready", "True", "Up", "a=fine, b=fine")},
		},
		"True on the only one": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "fine"))},
			"",
			[]any{condition("Ready", "True", "Up", "a=fine")},
		},
		"True everywhere, and nobody says more": {
			[]aggregate.ClusterItem{item("a", object{"conditions": []any{object{"type": "Ready", "status": "True"}}})},
			"",
			[]any{object{"type": "Ready", "status": "True"}},
		},
		"False without a message has the reason": {
			[]aggregate.ClusterItem{item("a", ready("False", "Down", "")), item("b", ready("False", "", ""))},
			"",
			[]any{condition("Ready", "False", "Down", "a=Down, b")},
		},
		"True everywhere, in other words": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "1 is up")), item("b", ready("True", "Up", "2 are up"))},
			"",
			[]any{condition("Ready", "True", "Up", "a=1 is up, b=2 are up")},
		},
		"False on one names it": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "fine")), item("b", ready("False", "Down", "no node"))},
			"",
			[]any{condition("Ready", "False", "Down", "b=no node")},
		},
		"False goes before Unknown": {
			[]aggregate.ClusterItem{item("a", nil), item("b", ready("False", "Down", "no node"))},
			"",
			[]any{condition("Ready", "False", "Down", "b=no node")},
		},
		"one has not reported": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "fine")), item("b", nil)},
			"",
			[]any{condition("Ready", "Unknown", "NotReported", "a=fine; b: has not reported yet")},
		},
		"one does not have the condition": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "fine")), item("b", object{"replicas": int64(1)})},
			"",
			[]any{condition("Ready", "Unknown", "NotReported", "a=fine; b: has not reported this condition")},
		},
		"one is silent": {
			[]aggregate.ClusterItem{item("a", ready("True", "Up", "fine")), silent},
			"",
			[]any{condition("Ready", "Unknown", "ClusterSilent", "a=fine; b: does not respond; when it did, the condition was True")},
		},
		"trouble on one is trouble": {
			[]aggregate.ClusterItem{item("a", failed("False", "")), item("b", failed("True", "no quota"))},
			"",
			[]any{condition("Failed", "True", "Why", "b=no quota")},
		},
		"trouble that one does not tell of is none": {
			[]aggregate.ClusterItem{item("a", failed("False", "well")), item("b", object{"replicas": int64(1)})},
			"",
			[]any{condition("Failed", "False", "Why", "a=well")},
		},
		"a reason that says least comes last": {
			[]aggregate.ClusterItem{item("a", ready("True", "Done", "fine")), item("b", ready("True", "Newer", "fine"))},
			"Done",
			[]any{condition("Ready", "True", "Newer", "a=fine, b=fine")},
		},
	} {
		if diff := cmp.Diff(c.want, aggregate.MergeConditions(object{}, c.items, map[string]string{"Ready": c.done})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestConditionsAreTyped: one field of another type would make the hub refuse the status
// of all clusters.
func TestConditionsAreTyped(t *testing.T) {
	t.Parallel()
	well, said := condition("Ready", "True", "Up", "fine"), condition("Ready", "True", "Up", "a=fine")
	for _, odd := range []any{
		"Ready",
		object{"status": "True"},
		object{"type": 5, "status": "True"},
		object{"type": "Odd", "status": true},
		object{"type": "Odd", "status": "True", "reason": int64(5)},
		object{"type": "Odd", "status": "True", "message": []any{"x"}},
		object{"type": "Odd", "status": "True", "lastProbeTime": int64(5)},
		object{"type": "Odd", "status": "True", "observedGeneration": "x"},
		object{"type": strings.Repeat("x", 1<<10), "status": "True"},
	} {
		if diff := cmp.Diff([]any{said}, aggregate.MergeConditions(object{}, []aggregate.ClusterItem{item("a", conditions(odd, well))}, nil)); diff != "" {
			t.Errorf("beside %v (-want +got):\n%s", odd, diff)
		}
	}
	more := object{"type": "Ready", "status": "True", "reason": strings.Repeat("R", 1<<20), "message": strings.Repeat("m", 1<<20), "unknown": object{}, "lastProbeTime": nil}
	got := aggregate.MergeConditions(object{}, []aggregate.ClusterItem{item("a", conditions(more))}, nil)[0].(object)
	if len(got) != 4 || len(got["reason"].(string)) > 1024 || len(got["message"].(string)) > 1024 {
		t.Errorf("of a condition with long texts and unknown fields there are %.200v", got)
	}
}

// TestManyConditions: what clusters report again and again under other names does not
// become more and more in the status of the template.
func TestManyConditions(t *testing.T) {
	t.Parallel()
	const most = 256
	var many []any
	for n := range 20_000 {
		many = append(many, condition(fmt.Sprintf("New%d", n), "True", "Up", "fine"))
	}
	template := object{"status": conditions(condition("Old", "True", "Up", "fine"))}
	if got := aggregate.MergeConditions(template, []aggregate.ClusterItem{item("a", conditions(many...)), item("b", conditions(many...))}, nil); len(got) > most {
		t.Errorf("%d conditions are merged", len(got))
	}
}

// TestAConditionIsNotForgotten: a template whose clusters have changed keeps its
// conditions, but for trouble that nobody tells of.
func TestAConditionIsNotForgotten(t *testing.T) {
	t.Parallel()
	template := object{"status": conditions(condition("Ready", "True", "Up", "fine"), condition("Failed", "True", "Why", "bad"))}
	want := []any{condition("Ready", "Unknown", "NotReported", "No cluster has the object.")}
	if diff := cmp.Diff(want, aggregate.MergeConditions(template, nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheTimesOfACondition(t *testing.T) {
	t.Parallel()
	ready := func(status, transition string) object {
		return object{"type": "Ready", "status": status, "lastTransitionTime": transition, "lastUpdateTime": transition}
	}
	items := []aggregate.ClusterItem{item("a", conditions(ready("True", early))), item("b", conditions(ready("True", late)))}
	for name, c := range map[string]struct {
		before string
		want   object
	}{
		"the status stays":   {"True", ready("True", "2025-01-01T00:00:00Z")},
		"the status changed": {"False", ready("True", late)},
	} {
		c.want["lastUpdateTime"] = late
		template := object{"status": conditions(object{"type": "Ready", "status": c.before, "lastTransitionTime": "2025-01-01T00:00:00Z"})}
		if diff := cmp.Diff([]any{c.want}, aggregate.MergeConditions(template, items, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	down := []aggregate.ClusterItem{item("a", conditions(ready("False", late))), item("b", conditions(ready("False", early))), item("c", conditions(ready("True", "2025-01-01T00:00:00Z")))}
	for before, want := range map[string]string{"": early, "2026-01-01T12:00:00Z": "2026-01-01T12:00:00Z"} {
		was := ready("True", before)
		template := object{"status": conditions(was)}
		if got := aggregate.MergeConditions(template, down, nil)[0].(object)["lastTransitionTime"]; got != want {
			t.Errorf("False since %v, and True before since %q, want %s", got, before, want)
		}
	}
	if got := aggregate.EarliestTime(nil, late, "odd", early, "0000-01-01T00:00:00+23:59"); got != early {
		t.Errorf("the earliest is %v", got)
	}
	// Of some times, other zones have years that nobody reads.
	if got := aggregate.LatestTime(early, "odd", late, "9999-12-31T23:59:59-23:59"); got != late {
		t.Errorf("the latest is %v", got)
	}
	if got := aggregate.LatestTime(nil, "odd", 1); got != nil {
		t.Errorf("of what is no time the latest is %v", got)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	var same, different []aggregate.ClusterItem
	for n := range 12 {
		name := fmt.Sprintf("c%02d", n)
		same = append(same, item(name, conditions(condition("Ready", "False", "Down", "no node"))))
		different = append(different, item(name, conditions(condition("Ready", "False", "Down", name+strings.Repeat("é", 200)))))
	}
	message := func(items []aggregate.ClusterItem) string {
		return aggregate.ConditionOf(aggregate.MergeConditions(object{}, items, nil), "Ready")["message"].(string)
	}
	if got, want := message(same), "c00=no node, c01=no node, c02=no node, c03=no node, c04=no node, c05=no node, c06=no node, c07=no node, c08=no node, c09=no node, c10=no node, c11=no node"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := message(different); len(got) > 1024 || !strings.HasSuffix(got, "é...") || strings.ToValidUTF8(got, "") != got {
		t.Errorf("a message of %d bytes ends with %q", len(got), got[len(got)-10:])
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	phase := func(name string) object { return object{"phase": name} }
	order := []string{"Failed", "Pending", "Bound"}
	for name, c := range map[string]struct {
		items []aggregate.ClusterItem
		want  string
	}{
		"the first of the order":  {[]aggregate.ClusterItem{item("a", phase("Bound")), item("b", phase("Failed"))}, "Failed"},
		"not reported is Pending": {[]aggregate.ClusterItem{item("a", phase("Bound")), item("b", nil)}, "Pending"},
		"an unknown phase":        {[]aggregate.ClusterItem{item("a", phase("Odd")), item("b", phase("Bound"))}, "Bound"},
		"none":                    {nil, "Pending"},
	} {
		if got := aggregate.MergePhases(c.items, "Pending", order...); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{nil, "", true},
		{nil, object{"a": []any{}}, true},
		{int64(0), false, true},
		{int64(1), float64(1), true},
		{int64(1), "1", false},
		{int64(1), int64(2), false},
		{object{"a": "x"}, object{"a": "x", "b": ""}, true},
		{object{"a": "x", "b": ""}, object{"a": "x"}, true},
		{object{"a": "x"}, object{"a": "x", "b": "y"}, false},
		{[]any{"a", "b"}, []any{"b", "a"}, false},
		{[]any{object{"a": nil}}, []any{object{}}, true},
		{"x", object{"a": "x"}, false},
	} {
		if got := aggregate.SameValue(c.a, c.b); got != c.want || got != aggregate.SameValue(c.b, c.a) {
			t.Errorf("%v and %v: same is %t, want %t, also the other way round", c.a, c.b, got, c.want)
		}
		if got := len(aggregate.DistinctValues([]any{c.a, c.b})) == 1; got != c.want {
			t.Errorf("%v and %v: one of them is distinct: %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

// TestWhatIsMergedIsBounded: keys are the words of members.
func TestWhatIsMergedIsBounded(t *testing.T) {
	t.Parallel()
	many, deep := object{}, object{"n": int64(1)}
	for n := range 2000 {
		many[fmt.Sprintf("k%d", n)] = int64(n)
	}
	for range 100 {
		deep = object{"o": deep}
	}
	merged, sums := object{}, object{}
	aggregate.MergeFields(merged, many)
	aggregate.MergeSums(sums, many)
	aggregate.MergeSums(sums, object{"k0": int64(5), "k1": int64(1) << 62, "deep": deep})
	if len(merged) != 1000 || len(sums) != 1000 {
		t.Errorf("there are %d merged fields and %d sums, want 1000 of each", len(merged), len(sums))
	}
	if sums["k0"] != int64(5) || sums["k1"] != int64(1<<31-1) {
		t.Errorf("the sums are %v and %v", sums["k0"], sums["k1"])
	}
	nested := object{}
	aggregate.MergeSums(nested, deep)
	if len(nested) > 0 {
		t.Errorf("what is too deep is summed up: %v", nested)
	}
}
