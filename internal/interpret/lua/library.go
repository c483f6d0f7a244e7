// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// dateFormatMaxBytes limits what os.date formats.
const dateFormatMaxBytes = 256

// Which functions of the standard libraries scripts get as they are.
func plainFunctions() map[string][]string {
	return map[string][]string{
		"":       {"assert", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "select", "tonumber", "tostring", "type", "xpcall"},
		"string": {"char", "len", "sub"},
		"table":  {"getn", "maxn"},
		"math": {
			"abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "ldexp", "log", "log10",
			"max", "min", "mod", "modf", "pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh",
		},
	}
}

// newGlobals returns the globals of a run: new tables with all that a script may
// use, so that nothing of what it changes there is there for the next.
func (r *scriptRun) newGlobals(l *lua.LState) *lua.LTable {
	globals := l.NewTable()
	r.libraries = map[string]*lua.LTable{}
	for library, functions := range r.functions {
		table := globals
		if library != "" {
			table = l.CreateTable(0, len(functions))
			globals.RawSetString(library, table)
		}
		r.libraries[library] = table
		for name, function := range functions {
			table.RawSetString(name, function)
		}
	}
	libraries := r.libraries
	libraries["math"].RawSetString("pi", lua.LNumber(math.Pi))
	libraries["math"].RawSetString("huge", lua.LNumber(math.Inf(1)))
	globals.RawSetString("_G", globals)
	globals.RawSetString("_VERSION", lua.LString(lua.LuaVersion))
	texts := l.NewTable()
	texts.RawSetString("__index", libraries["string"])
	l.SetMetatable(lua.LString(""), texts)
	return globals
}

// ownFunctions are those that count what they do, or leave out what is not for
// scripts.
func (r *scriptRun) ownFunctions() map[string]map[string]lua.LGFunction {
	return map[string]map[string]lua.LGFunction{
		"": r.baseFunctions(), "string": r.textFunctions(), "table": r.listFunctions(), "os": r.timeFunctions(), "kube": r.kubeFunctions(),
		"capstan": capstanLibrary{r}.libraryFunctions(),
	}
}

func (r *scriptRun) baseFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"print": func(*lua.LState) int { return 0 }, // there is nowhere to print to
		"require": func(l *lua.LState) int {
			library, known := r.libraries[l.CheckString(1)]
			if !known || l.CheckString(1) == "" {
				l.RaiseError("unknown library %q: scripts have kube, capstan, string, table, math and os", limitMessage(l.CheckString(1)))
			}
			l.Push(library)
			return 1
		},
		"rawset": func(l *lua.LState) int {
			t := l.CheckTable(1)
			r.meter.countGrowth(l, t, l.CheckAny(2))
			l.RawSet(t, l.CheckAny(2), l.CheckAny(3))
			l.SetTop(1)
			return 1
		},
		"setmetatable": func(l *lua.LState) int {
			t := l.CheckTable(1)
			l.CheckTypes(2, lua.LTNil, lua.LTTable)
			if old, is := l.GetMetatable(t).(*lua.LTable); is && old.RawGetString("__metatable") != lua.LNil {
				l.RaiseError("cannot change a protected metatable")
			}
			t.Metatable = l.Get(2)
			l.SetTop(1)
			return 1
		},
		"getmetatable": func(l *lua.LState) int { // that of texts is shared by all
			t, is := l.CheckAny(1).(*lua.LTable)
			if !is {
				l.Push(lua.LNil)
				return 1
			}
			metatable := t.Metatable
			if m, is := metatable.(*lua.LTable); is && m.RawGetString("__metatable") != lua.LNil {
				metatable = m.RawGetString("__metatable")
			}
			l.Push(metatable)
			return 1
		},
		"unpack": func(l *lua.LState) int {
			t := l.CheckTable(1)
			start := l.OptInt(2, 1)
			end := l.OptInt(3, t.Len())
			count := end - start + 1
			if count <= 0 {
				return 0
			}
			if count > registersMax || count < 0 {
				l.RaiseError("unpack: too many values")
			}
			r.meter.countMemory(l, count*bytesPerSlot)
			for i := start; i <= end; i++ {
				l.Push(l.RawGet(t, lua.LNumber(i)))
			}
			return count
		},
	}
}

func (r *scriptRun) listFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"concat": r.concatTable,
		"insert": func(l *lua.LState) int {
			t := l.CheckTable(1)
			switch l.GetTop() {
			case 2:
				r.meter.countMemory(l, bytesPerSlot)
				t.Append(l.Get(2))
			case 3:
				r.meter.countGrowth(l, t, lua.LNumber(l.CheckInt(2)))
				r.meter.spendSteps(l, t.Len()/64)
				t.Insert(l.CheckInt(2), l.Get(3))
			default:
				l.RaiseError("table.insert takes a list, a position if it is not the end, and a value")
			}
			return 0
		},
		"remove": func(l *lua.LState) int {
			t := l.CheckTable(1)
			r.meter.spendSteps(l, t.Len()/64)
			if l.GetTop() > 1 {
				l.Push(t.Remove(l.CheckInt(2)))
			} else {
				l.Push(t.Remove(-1))
			}
			return 1
		},
		"sort": func(l *lua.LState) int {
			r.meter.spendSteps(l, 16*l.CheckTable(1).Len())
			return r.original["table.sort"](l)
		},
	}
}

func (r *scriptRun) concatTable(l *lua.LState) int {
	t := l.CheckTable(1)
	between := l.OptString(2, "")
	start := l.OptInt(3, 1)
	end := l.OptInt(4, t.Len())
	var made strings.Builder
	for i := start; i <= end; i++ {
		r.meter.spendSteps(l, 1)
		v := t.RawGetInt(i)
		if !lua.LVCanConvToString(v) {
			l.RaiseError("table.concat: entry %d is a %s, want a string or a number", i, v.Type())
		}
		r.meter.writeText(l, &made, lua.LVAsString(v))
		if i < end {
			r.meter.writeText(l, &made, between)
		}
	}
	l.Push(lua.LString(made.String()))
	return 1
}

// timeFunctions are the two of os that neither read nor change anything else.
func (r *scriptRun) timeFunctions() map[string]lua.LGFunction {
	now := func() lua.LNumber { return lua.LNumber(r.now().Unix()) }
	return map[string]lua.LGFunction{
		"time": func(l *lua.LState) int {
			if l.GetTop() > 0 && l.Get(1) != lua.LNil {
				return r.original["os.time"](l)
			}
			l.Push(now())
			return 1
		},
		"date": func(l *lua.LState) int {
			format := l.OptString(1, "%c")
			at := l.OptNumber(2, now())
			if len(format) > dateFormatMaxBytes {
				l.RaiseError("os.date: the format has %d bytes, more than %d", len(format), dateFormatMaxBytes)
			}
			r.meter.countMemory(l, bytesPerTable)
			l.SetTop(0)
			l.Push(lua.LString(format))
			l.Push(at)
			return r.original["os.date"](l)
		},
	}
}
