// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"errors"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// What one run of a script may use.
const (
	// timeMax is for how long a run may take. It matters only if the machine is
	// overloaded: steps are what ends a loop.
	timeMax = time.Second
	// stepsMax is how many instructions a run may execute; what the libraries do
	// counts as several.
	stepsMax = 500_000
	// stepsPerValue is how many more it may execute for each value that it is given.
	stepsPerValue = 100
	// memoryMaxBytes limits the texts, tables and functions that a run makes, also
	// those that it does not keep.
	memoryMaxBytes = 64 << 20
	// textMaxBytes limits a text.
	textMaxBytes = 1 << 20
	// patternMaxBytes limits a pattern of string.find and others.
	patternMaxBytes = 1 << 10
	// callsMax is how many calls may be open at a time.
	callsMax = 200
	// registersMax limits the values of all open calls together.
	registersMax = 32 << 10
	// nestedMax is how deep a result may be nested.
	nestedMax = 128
	// messageMaxBytes limits what is said about a failure.
	messageMaxBytes = 512
)

// What takes how much memory.
const (
	bytesPerSlot     = 16
	bytesPerTable    = 2 << 10 // with its first entries
	bytesPerFunction = 4 << 10 // with the variables around it that it uses
)

// stepsPerCheck is after how many steps the time is looked at.
const stepsPerCheck = 1 << 10

// errSlow is the only limit that says more of the machine than of the script.
var errSlow = fmt.Errorf("it took longer than %s", timeMax)

// slowAgain is when to run a script again that took too long.
const slowAgain = time.Minute

// runMeter counts what a run uses. It is the context of the virtual machine, which
// asks it before each instruction whether it is done.
type runMeter struct {
	context.Context
	steps, bytes, ticks int
	// exceeded is the limit that the run has reached. A script cannot get rid of it:
	// pcall ends, and the next instruction fails as well.
	exceeded error
	stop     chan struct{}
}

// resetMeter begins a run with so many values.
func (m *runMeter) resetMeter(ctx context.Context, values int) {
	*m = runMeter{Context: ctx, steps: stepsMax + values*stepsPerValue, bytes: memoryMaxBytes}
}

// Done is part of context.Context. It counts an instruction.
func (m *runMeter) Done() <-chan struct{} {
	m.ticks++
	if m.ticks%stepsPerCheck == 0 && m.Context.Err() != nil {
		m.exceedLimit(errSlow)
	}
	m.takeSteps(1)
	return m.stop
}

// Err is part of context.Context.
func (m *runMeter) Err() error { return m.exceeded }

func (m *runMeter) exceedLimit(limit error) {
	if m.exceeded == nil {
		m.exceeded, m.stop = limit, make(chan struct{})
		close(m.stop)
	}
}

// takeSteps counts steps.
func (m *runMeter) takeSteps(steps int) {
	if m.steps -= steps; m.steps < 0 {
		m.exceedLimit(errors.New("it took too many steps: does each of its loops end?"))
	}
}

// spendSteps counts the steps of a library function, which does not go on if there are
// none left.
func (m *runMeter) spendSteps(l *lua.LState, steps int) {
	if m.takeSteps(steps); m.exceeded != nil {
		l.RaiseError("%s", m.exceeded.Error())
	}
}

// countText counts a text that is about to be made.
func (m *runMeter) countText(l *lua.LState, length int) {
	if length > textMaxBytes {
		m.exceedLimit(fmt.Errorf("a text would be longer than %d bytes", textMaxBytes))
	}
	m.countMemory(l, length)
}

// countMemory counts bytes that are about to be taken.
func (m *runMeter) countMemory(l *lua.LState, bytes int) {
	if m.bytes -= bytes; m.bytes < 0 {
		m.exceedLimit(fmt.Errorf("it took more than %d MiB of memory", memoryMaxBytes>>20))
	}
	m.spendSteps(l, bytes/1024)
}
