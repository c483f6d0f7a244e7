// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestLibraryCapstan(t *testing.T) {
	t.Parallel()
	const c = `local capstan = require("capstan"); `
	const statuses = `[{"clusterName":"a","applied":true,"health":"Healthy","status":{"phase":"Running","n":2,"at":"2026-01-02T10:00:00Z"}},
		{"clusterName":"b","applied":true,"health":"Healthy","status":{"phase":"Failed","n":3,"at":"2026-01-02T11:00:00Z"}},{"clusterName":"c"}]`
	for name, test := range map[string]struct{ script, given, want string }{
		"get":                            {`return {capstan.get(v, "a", "b"), capstan.get(v, "a")}`, `{"a":{"b":1}}`, `[1,{"b":1}]`},
		"get of what is not there":       {`return {tostring(capstan.get(v, "a", "b", "c")), tostring(capstan.get(nil, "a"))}`, `{"a":{"b":"x"}}`, `["nil","nil"]`},
		"list":                           {`return {#capstan.list(v, "a"), #capstan.list(v, "b"), #capstan.list(v, "c")}`, `{"a":[1,2],"b":{"x":1}}`, `[2,0,0]`},
		"object":                         {`local r = {}; for _, k in ipairs({"a", "b", "c", "d", "e"}) do table.insert(r, capstan.object(v, k) ~= nil) end; return r`, `{"a":{"x":1},"b":{},"c":[],"d":[1],"e":"x"}`, `[true,true,false,false,false]`},
		"text":                           {`return {capstan.text(v, "a"), tostring(capstan.text(v, "b")), tostring(capstan.text(v, "c"))}`, `{"a":"x","b":"","c":1}`, `["x","nil","nil"]`},
		"count":                          {`return {capstan.count(9, v, "a"), capstan.count(9, v, "b"), capstan.count(9, v, "c"), capstan.count(9, v, "d"), tostring(capstan.count(nil, v, "e"))}`, `{"a":3,"b":-1,"c":1.5,"d":"3x"}`, `[3,9,9,9,"nil"]`},
		"count of a text":                {`return {capstan.count(9, v, "a"), capstan.count(9, v, "b"), capstan.count(9, v, "c"), capstan.count(9, v, "d")}`, `{"a":"3","b":"-1","c":"99999999999","d":"50%"}`, `[3,9,9,9]`},
		"condition":                      {`return {capstan.condition(v, "Ready")}`, `{"status":{"conditions":[null,"x",{"type":"Ready","status":"False","reason":"R","message":"m"},{"type":"Ready","status":"True"}]}}`, `["False","R","m"]`},
		"no condition":                   {`return {tostring(capstan.condition(v, "Ready")), tostring(capstan.condition(v))}`, `{"status":{"conditions":[{"status":"True"}]}}`, `["nil","nil"]`},
		"observed":                       {`return {capstan.observed(v.a), capstan.observed(v.b), capstan.observed(v.c), capstan.observed(nil), capstan.observed({})}`, `{"a":{"metadata":{"generation":2},"status":{"observedGeneration":2}},"b":{"metadata":{"generation":2},"status":{"observedGeneration":1}},"c":{"metadata":{"generation":2}}}`, `[true,false,false,false,true]`},
		"reported":                       {`return {capstan.reported(v, v.status), capstan.reported({}, {observedGeneration = 1}), capstan.reported(v, {phase = "x"})}`, `{"metadata":{"generation":2,"annotations":{"resourcetemplate.karmada.io/generation":"7"}},"status":{"observedGeneration":2}}`, `[{"observedGeneration":2,"generation":2,"resourceTemplateGeneration":7},{"observedGeneration":1},{"phase":"x"}]`},
		"requirements":                   {`return {capstan.podRequirements(v.a), tostring(capstan.podRequirements(v.b)), tostring(capstan.podRequirements("x"))}`, `{"a":{"spec":{"nodeSelector":{"x":"y"}}},"b":{"spec":{}}}`, `[{"nodeClaim":{"nodeSelector":{"x":"y"}}},"nil","nil"]`},
		"what is needed, once":           {`local all = {}; for _ = 1, 2 do capstan.need(all, "v1", "Secret", "shop", "a") end; capstan.need(all, "v1", "Secret", nil, "a"); capstan.need(all, "v1", "Secret", "shop", v.b); return all`, `{}`, `[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"a"},{"apiVersion":"v1","kind":"Secret","name":"a"}]`},
		"what pods need":                 {`local all = {}; capstan.needPods(all, v, "shop"); capstan.needPods(all, "x", "shop"); return all`, `{"spec":{"imagePullSecrets":[{"name":"a"}]}}`, `[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"a"}]`},
		"aggregate":                      {`return capstan.aggregate({metadata = {generation = 1}}, v, {"n"})`, statuses, `{"n":5}`},
		"aggregate another shape":        {`return capstan.aggregate({}, v)`, statuses, `{}`},
		"first":                          {`return {capstan.first(v, {"Error", "Failed", "Running"}, "phase"), tostring(capstan.first(v, {"", "Failed"}, "phase")), tostring(capstan.first(v, {"X"}, "phase"))}`, statuses, `["Failed","nil","nil"]`},
		"aggregate without a cluster":    {`return {capstan.aggregate({metadata = {generation = 4}}, {}, {"n", "observedGeneration"}), capstan.aggregate({metadata = {generation = 4}}, {}, {"n"})}`, `{}`, `[{"observedGeneration":4},{}]`},
		"last":                           {`return {capstan.last(v, "n"), capstan.last(v, "phase"), tostring(capstan.last(v, "x")), tostring(capstan.last("x", "x"))}`, statuses, `[3,"Failed","nil","nil"]`},
		"longest":                        {`return {capstan.longest(v, "d"), tostring(capstan.longest(v, "x"))}`, `[{"status":{"d":"90s"}},{"status":{"d":"1m40s"}},{"status":{"d":"2"}},{"status":{"d":5}},{"status":{"d":"x"}}]`, `["1m40s","nil"]`},
		"sums":                           {`return {capstan.sums(v, "s"), tostring(capstan.sums(v, "x"))}`, `[{"status":{"s":{"a":1,"b":{"c":2},"d":"x","e":-5,"g":{"h":"x"}}}},{"status":{"s":{"a":3,"b":{"c":4,"f":1},"e":2147483648}}},{"status":{"s":{"a":{"c":1},"b":7}}},{"status":{"s":"x"}}]`, `[{"a":4,"b":{"c":6,"f":1},"e":2147483647},"nil"]`},
		"merged":                         {`return {capstan.merged(v, "s"), tostring(capstan.merged(v, "x"))}`, `[{"status":{"s":{"a":1,"b":"x"}}},{"status":{"s":{"b":"y"}}},{"status":{"s":[1]}}]`, `[{"a":1,"b":"y"},"nil"]`},
		"times":                          {`return {capstan.earliest(v, "at"), capstan.latest(v, "at"), tostring(capstan.latest(v, "phase"))}`, statuses, `["2026-01-02T10:00:00Z","2026-01-02T11:00:00Z","nil"]`},
		"what it makes counts as memory": {`local ok = pcall(function() while true do capstan.podRequirements(v) end end); return ok`, `{"spec":{"nodeSelector":{"x":"y"}}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NewMachine(atNoon).RunScript(body(t, c+test.script), ScriptCall{Arguments: []any{decoded(t, test.given)}, Results: 1})
			if test.want == "" {
				if err == nil {
					t.Error("it never reaches a limit")
				}
				return
			}
			expect.NoError(t, err)
			if diff := cmp.Diff(decoded(t, test.want), got[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}
