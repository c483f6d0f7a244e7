// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hostileMemoryMax is what a hostile script may have allocated, also what it did not
// keep: what it is allowed, what Go adds to that when texts and lists grow, and the
// stacks of the machine.
const hostileMemoryMax = 8 * memoryMaxBytes

// TestHostileScriptsEnd runs what would take all time or all memory. Each has to
// end with the limit that it reaches, and without having taken more than that.
func TestHostileScriptsEnd(t *testing.T) {
	const steps, memory, text = "too many steps", "MiB of memory", "a text would be longer"
	for name, c := range map[string]struct{ script, want string }{
		"an endless loop":                     {"while true do end", steps},
		"an endless loop that is caught":      {"while true do pcall(function() while true do end end) end", steps},
		"an error handler that does not end":  {"xpcall(function() error('x') end, function() while true do end end)", steps},
		"endless goto":                        {"::a:: goto a", steps},
		"an iterator that does not end":       {"for _ in function() return 1 end do end", steps},
		"calls without end":                   {"local function f() return 1 + f() end f()", "stack overflow"},
		"tail calls without end":              {"local function f() return f() end f()", steps},
		"calls of two functions without end":  {"local g local function f() return 1 + g() end g = function() return 1 + f() end f()", "stack overflow"},
		"calls that are caught":               {"local function f() pcall(f) f() end f()", ""},
		"a metatable that asks itself":        {"local t = {} setmetatable(t, {__index = function(_, k) return t[k] end}) return t.x", "stack overflow"},
		"a metatable that is its own":         {"local t = {} setmetatable(t, {__index = t, __newindex = t}) t.x = 1", "too many recursions in settable"},
		"tostring that calls itself":          {"local t = {} setmetatable(t, {__tostring = function(t) return tostring(t) end}) return tostring(t)", "stack overflow"},
		"comparing without end":               {"local m = {} m.__lt = function(a, b) return a < b end local a, b = setmetatable({}, m), setmetatable({}, m) return a < b", "stack overflow"},
		"a text that repeats":                 {"return ('x'):rep(1e9)", text},
		"a text that doubles":                 {"local s = 'x' while true do s = s .. s end", text},
		"texts that are kept":                 {"local s, t = ('x'):rep(1e6), {} while true do t[#t + 1] = s .. #t end", memory},
		"texts that are not kept":             {"local s = ('x'):rep(1e6) while true do local _ = s .. 'y' end", memory},
		"texts by a format":                   {"local s = ('x'):rep(1e6) while true do s = ('%s%s'):format(s, s) end", text},
		"texts by a list":                     {"local s, t = ('x'):rep(1e5), {} for i = 1, 1000 do t[i] = s end return table.concat(t)", text},
		"texts by separators":                 {"local t = {} for i = 1, 1000 do t[i] = '' end return table.concat(t, ('x'):rep(1e5))", text},
		"texts by replacing":                  {"return (('x'):rep(1e4):gsub('x', ('y'):rep(1e4)))", text},
		"texts by captures":                   {"return (('x'):rep(1e5):gsub('^(.*)$', ('%1'):rep(20)))", text},
		"texts upside down":                   {"local s = ('x'):rep(1e6) while true do s = s:reverse():upper():lower() end", memory},
		"bytes of a text":                     {"return ('x'):rep(1e6):byte(1, -1)", "registry overflow"},
		"a pattern that takes long":           {"return ('a'):rep(1e5):find('.-.-.-.-b')", steps},
		"a pattern that takes long at once":   {"return ('a'):rep(1e6):match('.-b')", steps},
		"a balance that takes long":           {"return ('('):rep(1e6):match('%b()')", steps},
		"a pattern without end":               {"return ('a'):match(('a?'):rep(1e5))", "a pattern has 200000 bytes, more than 1024"},
		"a long list at once":                 {"local t = {} t[60000000] = 1", memory},
		"a long list of a name":               {"local t, k = {}, 'x' t[k] = 1 k = 6e7 t[k] = 1", memory},
		"a long list by insert":               {"table.insert({}, 6e7, 1)", memory},
		"a long list by rawset":               {"rawset({}, 6e7, 1)", memory},
		"a long list when it is made":         {"return {[6e7] = 1}", memory},
		"a long list by a metatable":          {"local a = {} local b = setmetatable({}, {__newindex = a}) b[60000000] = 1", memory},
		"long lists, one after the other":     {"while true do local t = {} t[60000] = 1 end", memory},
		"long lists, several at once":         {"local a, b = {}, {} a[6e7], b[6e7] = 1, 2", memory},
		"a list that grows":                   {"local t = {} while true do t[#t + 1] = 1 end", steps},
		"a list that is unpacked":             {"local t = {} for i = 1, 1000 do t[i] = i end while true do local _ = {unpack(t)} end", memory},
		"a list that is unpacked too far":     {"return unpack({}, 1, 1e8)", "unpack: too many values"},
		"a list that is unpacked from before": {"return unpack({}, -2147483648, 2147483647)", "unpack: too many values"},
		"arguments that are packed":           {"local t = {} local function f(...) while true do t[#t + 1] = {...} end end f(unpack({}, 1, 1000))", memory},
		"nils that are packed":                {"local function f(...) while true do local _ = {...} end end f(unpack({}, 1, 10000))", memory},
		"nils that a function returns":        {"while true do local _ = {unpack({}, 1, 10000)} end", memory},
		"arguments that nobody reads":         {"local function g(...) end local function f(...) while true do g(...) end end f(unpack({}, 1, 10000))", memory},
		"a list that is inserted into":        {"local t = {} for i = 1, 1e6 do table.insert(t, 1, i) end", steps},
		"a list that is sorted":               {"local t = {} for i = 1, 50000 do t[i] = -i end while true do table.sort(t) end", steps},
		"sorting by a lie":                    {"local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t, function() return true end) end", steps},
		"tables without end":                  {"local t = {} while true do t[#t + 1] = {x = 1} end", memory},
		"functions without end":               {"local t = {} while true do t[#t + 1] = function() return t end end", memory},
		"names without end":                   {"local t, i = {}, 0 while true do i = i + 1 t['k' .. i] = i end", steps},
		"a result that contains itself":       {"local t = {} t.t = t return t", "nested deeper than 128, or contains itself"},
		"a result that doubles":               {"local t = {1} for i = 1, 60 do t = {t, t} end return t", steps},
		"a result of long texts":              {"local s, t = ('x'):rep(1e6), {} for i = 1, 200 do t[i] = s end return t", "it is too large"},
		"a date of any size":                  {"return os.date(('%c'):rep(1e5))", "os.date: the format has 200000 bytes"},
		"the guards":                          {"return _G['(join)'](1)", "attempt to call a non-function object"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := NewMachine(atNoon)
			script := body(t, "do "+c.script+" end")
			before, after := runtime.MemStats{}, runtime.MemStats{}
			runtime.ReadMemStats(&before)
			_, err := machine.RunScript(script, ScriptCall{Arguments: []any{map[string]any{}}, Results: 1})
			runtime.ReadMemStats(&after)
			wrong := (*RunError)(nil)
			// On a machine that is busy, the time may end first.
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "it took longer than") {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > hostileMemoryMax {
				t.Errorf("it took %d MiB", used>>20)
			}
		})
	}
}

func TestHostileSourcesAreRefused(t *testing.T) {
	t.Parallel()
	const size = 20000
	for name, source := range map[string]string{
		"parentheses": "function F() return " + strings.Repeat("(", size) + "1" + strings.Repeat(")", size) + " end",
		"tables":      "function F() return " + strings.Repeat("{", size) + strings.Repeat("}", size) + " end",
		"not":         "function F() return " + strings.Repeat("not ", size/2) + " 1 end",
		"minus":       "function F() return " + strings.Repeat("- ", size) + " 1 end",
		"joining":     "function F() return 'a'" + strings.Repeat(" .. 'a'", size/4) + " end",
		"functions":   "function F() " + strings.Repeat("return function() ", size/10) + strings.Repeat(" end", size/10) + " end",
		"blocks":      "function F() " + strings.Repeat("do ", size/2) + strings.Repeat("end ", size/2) + " end",
		"locals":      "function F() " + strings.Repeat("local a ", size/4) + " end",
		"calls":       "function F() return F" + strings.Repeat("()", size) + " end",
		"fields":      "function F() return F" + strings.Repeat(".a", size) + " end",
		"bytes":       "function F() \x00\xff\x1b end",
		"bytecode":    "\x1bLua\x51",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := CompileScript("test", "F", source)
			if err != nil {
				if wrong := (*CompileError)(nil); !errors.As(err, &wrong) || len(err.Error()) > 2*messageMaxBytes {
					t.Errorf("got %v", err)
				}
				return
			}
			_, err = NewMachine(atNoon).RunScript(script, ScriptCall{Results: 1})
			t.Log(err)
		})
	}
}

// TestNothingStaysForTheNextRun lets a script change all that it can reach, and runs
// another one on the same virtual machine.
func TestNothingStaysForTheNextRun(t *testing.T) {
	t.Parallel()
	const probe = `return {type(stolen), ("x"):rep(2), tostring(1), math.floor(1.5), type(kube.resourceAdd), ("a").stolen or "none",
	  table.concat({1, 2}, ","), (pcall(function() return (1).x end)), #"abc", type(getmetatable("")), require("kube") == kube, _G.string == string}`
	want := decoded(t, `["nil","xx","1",1,"function","none","1,2",false,3,"nil",true,true]`)
	for name, change := range map[string]string{
		"a global":                       `stolen = v`,
		"a global by _G":                 `_G.stolen = v; rawset(_G, "tostring", nil)`,
		"a library":                      `string.rep = function() return "evil" end; math.floor = nil; table.concat = nil; kube.resourceAdd = nil`,
		"the library that it gets":       `require("kube").resourceAdd = nil; require("string").rep = nil`,
		"all globals":                    `for k in pairs(_G) do if k ~= "pairs" then _G[k] = nil end end`,
		"the metatable of the globals":   `setmetatable(_G, {__index = function() return "evil" end, __newindex = function() end})`,
		"the metatable of a library":     `setmetatable(string, {__index = function() return "evil" end})`,
		"what texts have":                `string.stolen = "evil"`,
		"the metatable of texts":         `local m = getmetatable(""); if m then m.__index = {stolen = "evil"} end`,
		"a new metatable of texts":       `pcall(setmetatable, "", {__index = {stolen = "evil"}})`,
		"a metatable of numbers":         `pcall(setmetatable, 1, {__index = {x = "evil"}})`,
		"a metatable of functions":       `pcall(setmetatable, print, {__index = {x = "evil"}})`,
		"a metatable of nothing":         `pcall(setmetatable, nil, {__index = {x = "evil"}})`,
		"a metatable of true":            `pcall(setmetatable, true, {__index = {x = "evil"}})`,
		"an environment":                 `if setfenv then setfenv(1, {}) end; if getfenv then getfenv(0).stolen = 1 end`,
		"a metatable that is protected":  `local t = setmetatable({}, {__metatable = "no"}); stolen = getmetatable(t)`,
		"it leaves values on the stack":  `return 1, 2, 3, 4, 5, 6, 7, 8, 9`,
		"it keeps a function for later":  `stolen = function() return v end; return stolen`,
		"it changes what require knows":  `require = function() return {} end`,
		"it gives itself another length": `setmetatable(v, {__len = function() return 99 end})`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := NewMachine(atNoon)
			for range 3 {
				_, _ = machine.RunScript(body(t, "do "+change+" end"), ScriptCall{Arguments: []any{map[string]any{"a": "secret"}}, Results: 0})
				got, err := machine.RunScript(body(t, probe), ScriptCall{Results: 1})
				expect.NoError(t, err)
				if diff := cmp.Diff(want, got[0]); diff != "" {
					t.Error(diff)
				}
			}
			if len(machine.idle) == 0 {
				t.Error("no virtual machine was kept, so this proves nothing")
			}
		})
	}
}

// TestRunsDoNotMeet runs scripts at the same time.
func TestRunsDoNotMeet(t *testing.T) {
	t.Parallel()
	machine := NewMachine(atNoon)
	script := body(t, "x = v; local s = 0; for i = 1, 1000 do s = s + x end; return s")
	done := make(chan error)
	const goroutines, times = 8, 50
	for n := range goroutines {
		go func() {
			var err error
			for range times {
				got, failed := machine.RunScript(script, ScriptCall{Arguments: []any{int64(n)}, Results: 1})
				if failed != nil || got[0] != int64(n*1000) {
					err = fmt.Errorf("got %v: %w", got, failed)
				}
			}
			done <- err
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// FuzzScripts compiles and runs any text as a script, with any JSON: it ends, with a
// result or with an error that says what is wrong.
func FuzzScripts(f *testing.F) {
	for _, seed := range []string{
		"return v", "v.a = {} return v", "return v.a .. v.b", "local t = {} t[5] = v return t", "return ('%s'):format(v)", "return v:gsub('(a)', '%1')",
		"for k, w in pairs(v) do v[k] = nil end return v", "return kube.accuratePodRequirements(v)", "while true do end", "return string.rep(v, 9999999)",
		"return {capstan.sums({{status = v}, {status = v}}, 'b'), capstan.merged({{status = v}}, 'b'), capstan.last({{status = v}}, 'a'), capstan.longest({{status = v}}, 'a')}",
	} {
		f.Add(seed, `{"a":[],"b":{"c":1}}`)
	}
	machine := NewMachine(atNoon)
	f.Fuzz(func(t *testing.T, text, given string) {
		script, err := CompileScript("test", "F", "function F(v) "+text+"\nend")
		if err != nil {
			if wrong := (*CompileError)(nil); !errors.As(err, &wrong) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		var value any
		if err := decodeAny(given, &value); err != nil {
			return
		}
		if _, err := machine.RunScript(script, ScriptCall{Arguments: []any{value}, Results: 2, Like: []any{value}}); err != nil {
			if wrong := (*RunError)(nil); !errors.As(err, &wrong) || len(err.Error()) > 3*messageMaxBytes {
				t.Fatalf("%T: %v", err, err)
			}
		}
	})
}
