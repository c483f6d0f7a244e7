// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"math"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/native/workloads"
	"github.com/capstan-io/capstan/internal/interpret/pods"
)

// capstanLibrary is the library of that name: it reads objects however odd these are, and does
// what scripts of many kinds need.
type capstanLibrary struct{ run *scriptRun }

func (c capstanLibrary) libraryFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"get":  func(l *lua.LState) int { l.Push(valueAtPath(l, 1)); return 1 },
		"list": c.listAtPath,
		"object": func(l *lua.LState) int {
			t, is := valueAtPath(l, 1).(*lua.LTable)
			if _, list := c.run.empty[t].([]any); !is || list || t.MaxN() > 0 {
				l.Push(lua.LNil)
				return 1
			}
			l.Push(t)
			return 1
		},
		"text": func(l *lua.LState) int {
			if text, is := valueAtPath(l, 1).(lua.LString); is && text != "" {
				l.Push(text)
				return 1
			}
			l.Push(lua.LNil)
			return 1
		},
		"count": func(l *lua.LState) int {
			n, is := toNumber(valueAtPath(l, 2))
			if !is || n < 0 || n > math.MaxInt32 || float64(n) != math.Trunc(float64(n)) {
				l.Push(l.Get(1))
				return 1
			}
			l.Push(n)
			return 1
		},
		"condition":       c.findCondition,
		"observed":        statusObserved,
		"reported":        c.addGenerations,
		"podRequirements": c.podRequirements,
		"need":            c.needObject,
		"needPods":        c.needPods,
		"aggregate":       c.mergeUsualStatus,
		"first":           c.firstReported,
		"earliest":        func(l *lua.LState) int { return c.pickReported(l, aggregate.EarliestTime) },
		"latest":          func(l *lua.LState) int { return c.pickReported(l, aggregate.LatestTime) },
		"longest":         func(l *lua.LState) int { return c.pickReported(l, aggregate.LongestDuration) },
		"last":            c.lastReported,
		"sums":            func(l *lua.LState) int { return c.combineReported(l, aggregate.MergeSums) },
		"merged":          func(l *lua.LState) int { return c.combineReported(l, aggregate.MergeFields) },
	}
}

// toNumber returns a value as a number, also one that is written as text, such as "2".
func toNumber(value lua.LValue) (lua.LNumber, bool) {
	if text, is := value.(lua.LString); is {
		n, err := strconv.ParseInt(string(text), 10, 32)
		return lua.LNumber(n), err == nil
	}
	n, is := value.(lua.LNumber)
	return n, is
}

// tableField returns a field of a value, nothing if that has none.
func tableField(value, name lua.LValue) lua.LValue {
	if t, is := value.(*lua.LTable); is {
		return t.RawGet(name)
	}
	return lua.LNil
}

// valueAtPath returns what is in an argument at the path that those after it are.
func valueAtPath(l *lua.LState, from int) lua.LValue { return followPath(l, l.Get(from), from+1) }

// followPath returns what is in a value at the path that the arguments from one on are.
func followPath(l *lua.LState, value lua.LValue, from int) lua.LValue {
	for i := from; i <= l.GetTop(); i++ {
		value = tableField(value, l.Get(i))
	}
	return value
}

// listAtPath returns the list at a path, an empty one if there is none.
func (c capstanLibrary) listAtPath(l *lua.LState) int {
	found, is := valueAtPath(l, 1).(*lua.LTable)
	if !is || found.MaxN() == 0 {
		c.run.meter.countMemory(l, bytesPerTable)
		found = l.NewTable()
	}
	l.Push(found)
	return 1
}

// eachEntry calls for the entries of a list, and counts them.
func (c capstanLibrary) eachEntry(l *lua.LState, list lua.LValue, do func(entry lua.LValue) (more bool)) {
	t, is := list.(*lua.LTable)
	if !is {
		return
	}
	for i := 1; i <= t.MaxN(); i++ {
		c.run.meter.spendSteps(l, 1)
		if !do(t.RawGetInt(i)) {
			return
		}
	}
}

// findCondition returns the status, the reason and the message of a condition of an
// object.
func (c capstanLibrary) findCondition(l *lua.LState) int {
	found := lua.LNil
	c.eachEntry(l, tableField(tableField(l.Get(1), lua.LString("status")), lua.LString("conditions")), func(entry lua.LValue) bool {
		if name := tableField(entry, lua.LString("type")); name != lua.LNil && name == l.Get(2) {
			found = entry
		}
		return found == lua.LNil
	})
	for _, name := range []string{"status", "reason", "message"} {
		text, is := tableField(found, lua.LString(name)).(lua.LString)
		if !is {
			l.Push(lua.LNil)
			continue
		}
		l.Push(text)
	}
	return 3
}

// statusObserved reports whether the status of an object is about it as it is now. One without
// a generation does not say.
func statusObserved(l *lua.LState) int {
	if _, is := l.Get(1).(*lua.LTable); !is {
		l.Push(lua.LFalse)
		return 1
	}
	seen, reports := tableField(tableField(l.Get(1), lua.LString("status")), lua.LString("observedGeneration")).(lua.LNumber)
	generation, has := tableField(tableField(l.Get(1), lua.LString("metadata")), lua.LString("generation")).(lua.LNumber)
	l.Push(lua.LBool(!has || reports && seen >= generation))
	return 1
}

// addGenerations adds the generations to the status of an object that go with it when it is
// reported, and returns it.
func (c capstanLibrary) addGenerations(l *lua.LState) int {
	status := l.CheckTable(2)
	for name, value := range interpret.StatusGenerations(c.jsonObject(l, 1), c.jsonObject(l, 2)) {
		status.RawSetString(name, c.run.toLua(l, value))
	}
	l.Push(status)
	return 1
}

// jsonObject returns an argument as it would be in JSON, nil if it is no object.
func (c capstanLibrary) jsonObject(l *lua.LState, at int) map[string]any {
	if _, is := l.Get(at).(*lua.LTable); !is {
		return nil
	}
	return c.run.tableObject(l, at)
}

// pushResult gives a script what was computed, and counts it.
func (c capstanLibrary) pushResult(l *lua.LState, value any) int {
	c.run.meter.countMemory(l, countValues(value)*bytesPerTable/4)
	l.Push(c.run.toLua(l, value))
	return 1
}

func (c capstanLibrary) podRequirements(l *lua.LState) int {
	if needs := pods.RequirementsFromSpec(fields.Map(c.jsonObject(l, 1), "spec")); needs != nil {
		return c.pushResult(l, requirementsJSON(needs))
	}
	l.Push(lua.LNil)
	return 1
}

// needObject adds an object to a list of what is needed, unless it has no name or is in the
// list already.
func (c capstanLibrary) needObject(l *lua.LState) int {
	all := l.CheckTable(1)
	version := l.CheckString(2)
	kind := l.CheckString(3)
	namespace := l.Get(4)
	name := l.Get(5)
	text, is := name.(lua.LString)
	if !is || text == "" {
		return 0
	}
	c.appendNeeded(l, all, version, kind, namespace, text)
	return 0
}

func (c capstanLibrary) appendNeeded(l *lua.LState, all *lua.LTable, version, kind string, namespace lua.LValue, name lua.LString) {
	values := map[string]lua.LValue{"apiVersion": lua.LString(version), "kind": lua.LString(kind), "name": name}
	if text, is := namespace.(lua.LString); is && text != "" {
		values["namespace"] = text
	}
	has := false
	c.eachEntry(l, all, func(entry lua.LValue) bool {
		has = true
		for _, of := range []string{"apiVersion", "kind", "namespace", "name"} {
			want := values[of]
			if want == nil {
				want = lua.LNil
			}
			has = has && tableField(entry, lua.LString(of)) == want
		}
		return !has
	})
	if has {
		return
	}
	c.run.meter.countMemory(l, bytesPerTable)
	entry := l.CreateTable(0, len(values))
	for of, value := range values {
		entry.RawSetString(of, value)
	}
	all.Append(entry)
}

// needPods adds to a list of what is needed what pods of a template need.
func (c capstanLibrary) needPods(l *lua.LState) int {
	all := l.CheckTable(1)
	namespace := l.Get(3)
	for _, on := range workloads.PodDependencies(fields.Map(c.jsonObject(l, 2), "spec"), "") {
		c.appendNeeded(l, all, on.APIVersion, on.Kind, namespace, lua.LString(on.Name))
	}
	return 0
}

// clusterItems reads what clusters report from the argument of a script.
func (c capstanLibrary) clusterItems(l *lua.LState, at int) []aggregate.ClusterItem {
	var items []aggregate.ClusterItem
	value, err := c.run.fromLua(l.CheckTable(at), nil)
	if err != nil {
		l.ArgError(at, err.Error())
	}
	list, _ := value.([]any)
	for _, entry := range list {
		item, _ := entry.(map[string]any)
		items = append(items, aggregate.ClusterItem{
			Cluster: fields.String(item, "clusterName"), Status: fields.Map(item, "status"),
			Applied: fields.Bool(item, "applied"), Health: fields.String(item, "health"),
		})
	}
	return items
}

// mergeUsualStatus returns the status of a template by what clusters report, as that of kinds
// without a script; counters with other names are those that the script names, and
// observedGeneration among them is there without any cluster, too.
func (c capstanLibrary) mergeUsualStatus(l *lua.LState) int {
	rules := aggregate.AggregationRules{}
	c.eachEntry(l, l.Get(3), func(entry lua.LValue) bool {
		name := lua.LVAsString(entry)
		rules.Observes = rules.Observes || name == "observedGeneration"
		rules.Sums = append(rules.Sums, name)
		return true
	})
	rules.Sums = slices.DeleteFunc(rules.Sums, func(name string) bool { return name == "observedGeneration" })
	status := aggregate.MergeUsualStatus(c.jsonObject(l, 1), c.clusterItems(l, 2), rules)
	if status == nil {
		status = map[string]any{}
	}
	return c.pushResult(l, status)
}

// firstReported returns the first of some values that a cluster reports at a path; "" stands
// for one that reports nothing there.
func (c capstanLibrary) firstReported(l *lua.LState) int {
	var reported []string
	c.eachEntry(l, l.Get(1), func(item lua.LValue) bool {
		text, _ := followPath(l, tableField(item, lua.LString("status")), 3).(lua.LString)
		reported = append(reported, string(text))
		return true
	})
	found := lua.LNil
	c.eachEntry(l, l.Get(2), func(value lua.LValue) bool {
		text, is := value.(lua.LString)
		c.run.meter.spendSteps(l, len(reported))
		if !is || !slices.Contains(reported, string(text)) {
			return true
		}
		if found = lua.LNil; strings.TrimSpace(string(text)) != "" {
			found = text
		}
		return false
	})
	l.Push(found)
	return 1
}

// eachReport calls with what each cluster reports at the path that the arguments after
// the items are, in their order.
func (c capstanLibrary) eachReport(l *lua.LState, do func(value lua.LValue)) {
	c.eachEntry(l, l.Get(1), func(item lua.LValue) bool {
		do(followPath(l, tableField(item, lua.LString("status")), 2))
		return true
	})
}

// pickReported returns one of the texts that clusters report at a path.
func (c capstanLibrary) pickReported(l *lua.LState, of func(...any) any) int {
	var texts []any
	c.eachReport(l, func(value lua.LValue) {
		if text, is := value.(lua.LString); is {
			texts = append(texts, string(text))
		}
	})
	if text, is := of(texts...).(string); is {
		l.Push(lua.LString(text))
		return 1
	}
	l.Push(lua.LNil)
	return 1
}

// lastReported returns what the last cluster reports that reports anything at a path.
func (c capstanLibrary) lastReported(l *lua.LState) int {
	found := lua.LNil
	c.eachReport(l, func(value lua.LValue) {
		if value != lua.LNil {
			found = value
		}
	})
	l.Push(found)
	return 1
}

// combineReported makes one object of those that clusters report at a path, nil if there is
// none.
func (c capstanLibrary) combineReported(l *lua.LState, add func(all, one map[string]any)) int {
	var all map[string]any
	c.eachReport(l, func(value lua.LValue) {
		read, err := c.run.fromLua(value, nil)
		if one, is := read.(map[string]any); err == nil && is {
			if all == nil {
				all = map[string]any{}
			}
			c.run.meter.spendSteps(l, countValues(one))
			add(all, one)
		}
	})
	if all == nil {
		l.Push(lua.LNil)
		return 1
	}
	return c.pushResult(l, all)
}
