// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// idleMax is how many virtual machines are kept for the next run.
const idleMax = 4

// Machine runs scripts. Any number of them can run at a time.
type Machine struct {
	now  func() time.Time
	idle chan *scriptRun
}

// NewMachine returns a machine on which scripts find the time that now returns.
func NewMachine(now func() time.Time) *Machine {
	return &Machine{now: now, idle: make(chan *scriptRun, idleMax)}
}

// scriptRun is a virtual machine, which runs one script at a time.
type scriptRun struct {
	now   func() time.Time
	state *lua.LState
	// functions are those of libraries by library and name, the globals under "".
	// They stay the same for all runs: a script cannot change a function.
	functions map[string]map[string]lua.LValue
	original  map[string]lua.LGFunction
	guards    []lua.LValue
	meter     *runMeter

	// What follows is of the script that runs.
	libraries map[string]*lua.LTable
	// empty are the empty tables that the script was given.
	empty map[*lua.LTable]any
}

// RunError is why a run failed.
type RunError struct {
	// Line is where, 0 if that is not known.
	Line    int
	Message string
	// limit is what the run has exceeded, nil if nothing.
	limit error
}

func (e *RunError) Unwrap() error { return e.limit }

func (e *RunError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Message)
	}
	return e.Message
}

// ScriptCall is how the function of a script is called. Values are as they are decoded
// from JSON.
type ScriptCall struct {
	Arguments []any
	// Results is how many values it returns.
	Results int
	// Like are values that the first result may be like, which tells apart what Lua
	// does not: see fromLua.
	Like []any
}

// RunScript calls the function of a script, and returns its results: nil for those that
// it does not return. Nothing of the arguments is changed. An error is a *RunError.
func (m *Machine) RunScript(script *Script, call ScriptCall) ([]any, error) {
	r := m.acquireRun()
	ctx, cancel := context.WithTimeout(context.Background(), timeMax)
	defer cancel()
	values := 0
	for _, argument := range call.Arguments {
		values += countValues(argument)
	}
	r.meter.resetMeter(ctx, values)
	r.empty = map[*lua.LTable]any{}
	made, err := r.callFunction(script, call)
	if err != nil { // its stacks may be in any state
		return nil, err
	}
	r.meter.Context = nil
	r.empty = nil
	r.libraries = nil
	m.releaseRun(r)
	return made, nil
}

func (m *Machine) acquireRun() *scriptRun {
	select {
	case r := <-m.idle:
		return r
	default:
		return newRun(m.now)
	}
}

func (m *Machine) releaseRun(r *scriptRun) {
	select {
	case m.idle <- r:
	default:
	}
}

func newRun(now func() time.Time) *scriptRun {
	r := &scriptRun{now: now, meter: &runMeter{}, functions: map[string]map[string]lua.LValue{}, original: map[string]lua.LGFunction{}}
	r.state = lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: callsMax, MinimizeStackMemory: true,
		RegistrySize: 1 << 10, RegistryMaxSize: registersMax, RegistryGrowStep: 4 << 10,
	})
	l := r.state
	for library, open := range map[string]lua.LGFunction{
		"": lua.OpenBase, lua.StringLibName: lua.OpenString, lua.TabLibName: lua.OpenTable, lua.MathLibName: lua.OpenMath, lua.OsLibName: lua.OpenOs,
	} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
		table, _ := l.GetGlobal(library).(*lua.LTable)
		if library == "" {
			table, _ = l.Get(lua.GlobalsIndex).(*lua.LTable)
		}
		r.functions[library] = map[string]lua.LValue{}
		for _, name := range plainFunctions()[library] {
			r.functions[library][name] = table.RawGetString(name)
		}
		for _, name := range []string{"sort", "time", "date"} {
			if f, is := table.RawGetString(name).(*lua.LFunction); is {
				r.original[library+"."+name] = f.GFunction
			}
		}
	}
	for library, functions := range r.ownFunctions() {
		if r.functions[library] == nil {
			r.functions[library] = map[string]lua.LValue{}
		}
		for name, function := range functions {
			r.functions[library][name] = l.NewFunction(function)
		}
	}
	for _, guard := range []lua.LGFunction{r.meter.joinValues, r.meter.setField, r.meter.countKey, r.meter.countMade, r.meter.countList, r.meter.countArguments} { // in the order of guardNames
		r.guards = append(r.guards, l.NewFunction(guard))
	}
	return r
}

// callFunction executes a script and then its function.
func (r *scriptRun) callFunction(script *Script, call ScriptCall) ([]any, error) {
	l := r.state
	l.SetContext(r.meter)
	defer l.RemoveContext()
	l.Env = r.newGlobals(l)
	if err := l.CallByParam(lua.P{Fn: l.NewFunctionFromProto(script.code), Protect: true}, r.guards...); err != nil {
		return nil, r.asRunError(script, err)
	}
	function, is := l.Env.RawGetString(script.function).(*lua.LFunction)
	if !is {
		return nil, &RunError{Message: fmt.Sprintf("%s is no longer a function when the script has run", script.function)}
	}
	values := make([]lua.LValue, 0, len(call.Arguments))
	for _, argument := range call.Arguments {
		values = append(values, r.toLua(l, argument))
	}
	if err := l.CallByParam(lua.P{Fn: function, NRet: call.Results, Protect: true}, values...); err != nil {
		return nil, r.asRunError(script, err)
	}
	made := make([]any, call.Results)
	for i := range made {
		value, err := r.fromLua(l.Get(i-call.Results), call.Like)
		if err != nil {
			return nil, &RunError{Message: limitMessage(fmt.Sprintf("what %s returns is not usable: %v", script.function, err))}
		}
		made[i] = value
	}
	l.SetTop(0)
	return made, nil
}

// asRunError returns the error of a run.
func (r *scriptRun) asRunError(script *Script, err error) error {
	failed := (*lua.ApiError)(nil)
	message := err.Error()
	if errors.As(err, &failed) && failed.Object != nil {
		message = failed.Object.String()
		if failed.Object.Type() == lua.LTTable {
			message = "it raised a table as its error, where a string can be shown"
		}
	}
	line := 0
	if place, is := strings.CutPrefix(message, script.operation+":"); is {
		number, rest, _ := strings.Cut(place, ":")
		if n, err := strconv.Atoi(number); err == nil {
			line, message = n, strings.TrimSpace(rest)
		}
	}
	if r.meter.exceeded != nil {
		message = r.meter.exceeded.Error()
	}
	return &RunError{Line: line, Message: limitMessage(message), limit: r.meter.exceeded}
}
