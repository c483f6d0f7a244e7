// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// atNoon is the time that scripts of the tests find.
func atNoon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// decoded decodes JSON as objects are.
func decoded(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := decodeAny(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func decodeAny(text string, into *any) error {
	var wrapped map[string]any
	if err := json.Unmarshal([]byte(`{"value":`+text+`}`), &wrapped); err != nil {
		return err
	}
	*into = wrapped["value"]
	return nil
}

// body makes a script of the body of a function F(v).
func body(t *testing.T, text string) *Script {
	t.Helper()
	script, err := CompileScript("test", "F", "function F(v) "+text+" end")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return script
}

// TestValuesSurviveAScript runs bodies of a function with a value and compares what
// they return.
func TestValuesSurviveAScript(t *testing.T) {
	t.Parallel()
	const same = "return v"
	for name, c := range map[string]struct{ script, given, want string }{
		"an object":                              {same, `{"a":{"b":[1,"x",true,{"c":2.5}]}}`, `{"a":{"b":[1,"x",true,{"c":2.5}]}}`},
		"empty lists and objects":                {same, `{"list":[],"object":{},"in":[{"list":[],"object":{}}]}`, `{"list":[],"object":{},"in":[{"list":[],"object":{}}]}`},
		"an empty list that is moved":            {"return {there = v.list, here = v.object}", `{"list":[],"object":{}}`, `{"there":[],"here":{}}`},
		"a list that the script empties":         {"v.list = {}; v.object = {}; return v", `{"list":[1],"object":{"a":1}}`, `{"list":[],"object":{}}`},
		"a list that it empties bit by bit":      {"table.remove(v.list); v.object.a = nil; return v", `{"list":[1],"object":{"a":1}}`, `{"list":[],"object":{}}`},
		"an empty table that nothing explains":   {"v.new = {}; v.list[1] = {}; return v", `{"list":[]}`, `{"list":[{}]}`},
		"an empty list in another entry":         {"v.all[2].ports = {}; return v", `{"all":[{"ports":[1]},{"name":"b"}]}`, `{"all":[{"ports":[1]},{"name":"b","ports":[]}]}`},
		"null in a list":                         {same, `{"a":[1,null,3]}`, `{"a":[1,null,3]}`},
		"null in an object is nothing":           {same, `{"a":null,"b":1}`, `{"b":1}`},
		"a number that Lua knows only nearly":    {same, `{"a":9007199254740993}`, `{"a":9007199254740993}`},
		"a number that is not whole, and is one": {same, `{"a":1.0,"b":1.5}`, `{"a":1.0,"b":1.5}`},
		"a number that it computes":              {"return {a = v.a * 2, b = v.a / 4}", `{"a":3}`, `{"a":6,"b":0.75}`},
		"nothing":                                {"return nil", `{}`, `null`},
		"a list by its numbers":                  {"local l = {}; for i = 1, 3 do l[i] = i * i end; return l", `{}`, `[1,4,9]`},
		"text by pieces":                         {`return "a" .. v.n .. "-" .. v.s`, `{"n":1,"s":"x"}`, `"a1-x"`},
		"several places at once":                 {`local i = 1; i, v[i] = i + 1, 20; return {i, v[1]}`, `[10]`, `[2,20]`},
		"places that are swapped":                {`v[1], v[2], v.x = v[2], v[1]; return {v[1], v[2]}`, `[1,2]`, `[2,1]`},
		"a key that is computed":                 {`local k = "a"; return {[k .. "b"] = 1}`, `{}`, `{"ab":1}`},
		"a local function that calls itself":     {`local function f(n) if n == 0 then return 1 end return n * f(n - 1) end return f(5)`, `{}`, `120`},
		"a function with any arguments":          {`local function f(...) return select('#', ...) + #{...} end return f(1, 2, 3)`, `{}`, `6`},
		"a table that says how it is joined":     {`local m = setmetatable({}, {__concat = function(a, b) return "joined" end}); return "a" .. m`, `{}`, `"joined"`},
		"methods":                                {`local o = {n = 1}; function o:get() return self.n end; return o:get() .. ("x"):rep(2)`, `{}`, `"1xx"`},
		"an error that is caught":                {`local ok, why = pcall(function() error("x", 0) end); return {ok, why}`, `{}`, `[false,"x"]`},
		"goto":                                   {`local i = 1 ::again:: i = i + 1 if i < 5 then goto again end return i`, `{}`, `5`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := decoded(t, c.given)
			before := runtime.DeepCopyJSONValue(given)
			got, err := NewMachine(atNoon).RunScript(body(t, c.script), ScriptCall{Arguments: []any{given}, Results: 1, Like: []any{given}})
			expect.NoError(t, err)
			if diff := cmp.Diff(decoded(t, c.want), got[0]); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, given); diff != "" {
				t.Errorf("the script changed what it was given:\n%s", diff)
			}
		})
	}
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	const pod = `{"metadata":{},"spec":{"nodeSelector":{"disk":"fast"},"containers":[{"name":"a","resources":{"requests":{"cpu":"500m"}},` +
		`"envFrom":[{"configMapRef":{"name":"settings"}}]},{"name":"b","resources":{"requests":{"cpu":"1"}}}],"volumes":[{"name":"v","secret":{"secretName":"key"}}]}}`
	for name, c := range map[string]struct{ script, given, want string }{
		"what a pod needs": {
			`return require("kube").accuratePodRequirements(v)`, pod, `{"nodeClaim":{"nodeSelector":{"disk":"fast"}},"resourceRequest":{"cpu":"1500m"}}`,
		},
		"a pod that needs nothing": {`return kube.accuratePodRequirements(v)`, `{"spec":{"containers":[{"name":"a"}]}}`, `null`},
		"what a pod refers to": {`return kube.getPodDependencies(v, "shop")`, pod, `[` +
			`{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings"},{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"key"}]`},
		"sums of quantities":    {`return kube.resourceAdd("500m", 1, nil, "1500m")`, `{}`, `"3"`},
		"quantities as numbers": {`return {kube.getResourceQuantity("500m"), kube.getResourceQuantity("2Ki")}`, `{}`, `[0.5,2048]`},
		"the time":              {`return {os.time(), os.date("!%Y-%m-%d %H:%M"), os.date("!*t", 0).year}`, `{}`, `[1767355200,"2026-01-02 12:00",1970]`},
		"texts": {
			`return {("abc"):upper(), string.rep("ab", 3), ("abc"):reverse(), ("abc"):sub(2), #v, ("abc"):byte(2), string.char(120), ("x"):rep(-1)}`,
			`"four"`, `["ABC","ababab","cba","bc",4,98,"x",""]`,
		},
		"formats": {
			`return {string.format("%s-%d", "a", 2), string.format("%5.1f|%-3s|%03d", 2.25, "x", 7), string.format("%x %q 100%%", 255, 'a"b'), string.format("%g", 0.1)}`,
			`{}`, `["a-2","  2.2|x  |007","ff \"a\\\"b\" 100%","0.1"]`,
		},
		"finding": {
			`return {v:find("o"), v:find("l+"), v:find(".", 1, true) or "no", v:find("(w)(o)"), v:find("x") or "no"}`,
			`"hello world"`, `[5,3,"no",7,"no"]`,
		},
		"matching": {
			`return {v:match("^(%a+)/(%d+)$"), (v:match("%d+")), (("k=v"):match("(%w+)=(%w+)")), ("  x "):match("^%s*(.-)%s*$"), ("[a[b]]"):match("%b[]"), ("THE (quick) fox"):find("%f[%a]%a+%f[%A]"), ("a.b"):match("()%."), ("aa"):match("(a)%1")}`,
			`"name/42"`, `["name","42","k","x","[a[b]]",1,2,"a"]`,
		},
		"all matches":     {`local l = {}; for k, w in v:gmatch("(%w+)=(%w*)") do l[#l + 1] = k .. ":" .. w end return l`, `"a=1, b=, c=3"`, `["a:1","b:","c:3"]`},
		"empty matches":   {`local n = 0; for _ in v:gmatch("x*") do n = n + 1 end return n`, `"axb"`, `4`},
		"replacing":       {`return {(v:gsub("l", "L")), (v:gsub("l", "L", 1)), (v:gsub("(h)(e)", "%2%1%%")), (v:gsub("%w", {h = "H"})), (v:gsub("o", function(c) return c .. "!" end)), (v:gsub("", "-"))}`, `"hello"`, `["heLLo","heLlo","eh%llo","Hello","hello!","-h-e-l-l-o-"]`},
		"lists":           {`table.insert(v, 4); table.insert(v, 1, 0); table.remove(v, 2); table.sort(v, function(a, b) return a > b end); return {table.concat(v, ","), #v, unpack(v)}`, `[1,2,3]`, `["4,3,2,0",4,4,3,2,0]`},
		"numbers":         {`return {math.floor(2.7), math.max(1, 5, 3), math.abs(-1), tonumber("12"), tostring(3), type(v)}`, `{}`, `[2,5,1,12,"3","table"]`},
		"what is missing": {`return {type(io), type(load), type(loadstring), type(dofile), type(loadfile), type(os.getenv), type(os.execute), type(os.exit), type(debug), type(coroutine), type(collectgarbage), type(setfenv), type(getfenv), type(newproxy), type(module), type(package), type(string.dump), type(math.random), type(channel)}`, `{}`, `["nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil","nil"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := decoded(t, c.given)
			got, err := NewMachine(atNoon).RunScript(body(t, c.script), ScriptCall{Arguments: []any{given}, Results: 1, Like: []any{given}})
			expect.NoError(t, err)
			if diff := cmp.Diff(decoded(t, c.want), got[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, compile, run string }{
		"no end":               {"function F(v)\n  if v then\n  return v", "it ends too early: is an 'end' missing?", ""},
		"a word too many":      {"function F(v)\n  return v v\nend", `line 2: syntax error near "v"`, ""},
		"another function":     {"function f(v)\n return v\nend", "it has no function F: begin it with 'function F(...)', not local", ""},
		"a local function":     {"local function F(v)\n return v\nend", "it has no function F: begin it with 'function F(...)', not local", ""},
		"a variable":           {"F = function(v) return 1 end", "", ""},
		"too long":             {"--" + string(make([]byte, sourceMaxBytes)) + "\nfunction F() end", "it has 65555 bytes, more than 65536", ""},
		"goto nowhere":         {"function F(v)\n goto there\nend", "line 3: no visible label 'there' for <goto> at line 2", ""},
		"nothing there":        {"function F(v)\n\n return v.spec.replicas\nend", "", "line 3: attempt to index a non-table object(nil) with key 'replicas'"},
		"at its top":           {"local x = nil\nx.y = 1\nfunction F(v) end", "", "line 2: attempt to index a non-table object(nil) with key 'y'"},
		"a call of nothing":    {"function F(v)\n return io.open('x')\nend", "", "line 2: attempt to index a non-table object(nil) with key 'open'"},
		"joined with nothing":  {"function F(v)\n return 'a' .. nil\nend", "", "line 2: attempt to concatenate a nil value"},
		"its own error":        {"function F(v)\n error('I want more')\nend", "", "line 2: I want more"},
		"an error as a table":  {"function F(v)\n error({})\nend", "", "it raised a table as its error, where a string can be shown"},
		"a list with names":    {"function F(v)\n return {a = {1, b = 2}}\nend", "", "what F returns is not usable: a has both numbers and names as keys: it has to be a list or an object"},
		"a list with a gap":    {"function F(v)\n return {a = {[1] = 1, [3] = 3}}\nend", "", "what F returns is not usable: a has nothing at position 2, and 3 entries: a list has no gaps"},
		"a function":           {"function F(v)\n return {a = {1, F}}\nend", "", "what F returns is not usable: a.2 is a function, which JSON does not have"},
		"no number":            {"function F(v)\n return 0/0\nend", "", "what F returns is not usable: it is not a finite number"},
		"a key that is none":   {"function F(v)\n return {[true] = 1}\nend", "", "what F returns is not usable: it has a key that is a boolean, want a string"},
		"an unknown library":   {"local x = require('socket')\nfunction F(v) end", "", "line 1: unknown library \"socket\": scripts have kube, capstan, string, table, math and os"},
		"a hostile quantity":   {"function F(v)\n return kube.resourceAdd('1e-2000000000')\nend", "", "line 2: bad argument #1 to resourceAdd (it is not a quantity, such as 500m or 2Gi)"},
		"no quantity":          {"function F(v)\n return kube.resourceAdd('x')\nend", "", "line 2: bad argument #1 to resourceAdd (it is not a quantity, such as 500m or 2Gi)"},
		"a wrong pattern":      {"function F(v)\n return ('x'):match('[a')\nend", "", `line 2: the pattern "[a" is wrong: a '[' has no ']'`},
		"a format of anything": {"function F(v)\n return ('%1000d'):format(1)\nend", "", `line 2: string.format: the format "%1000d" is not supported at byte 1`},
		"it hides its function": {
			"function F(v) return 1 end\nF = nil", "", "F is no longer a function when the script has run",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := CompileScript("test", "F", c.source)
			if err != nil || c.compile != "" {
				if wrong := (*CompileError)(nil); !errors.As(err, &wrong) || err.Error() != c.compile {
					t.Fatalf("got %v, want %s", err, c.compile)
				}
				return
			}
			_, err = NewMachine(atNoon).RunScript(script, ScriptCall{Arguments: []any{map[string]any{}}, Results: 1})
			if err != nil || c.run != "" {
				if wrong := (*RunError)(nil); !errors.As(err, &wrong) || err.Error() != c.run {
					t.Fatalf("got %v, want %s", err, c.run)
				}
			}
		})
	}
}
