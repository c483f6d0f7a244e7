// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/capstan-io/capstan/internal/interpret/lua/pattern"
)

// newMatcher returns what matches a text, and counts its steps.
func (m *runMeter) newMatcher(l *lua.LState, text, what string) *pattern.Matcher {
	if len(what) > patternMaxBytes {
		l.RaiseError("a pattern has %d bytes, more than %d; string.find(text, what, 1, true) has no such limit", len(what), patternMaxBytes)
	}
	return &pattern.Matcher{
		Text: text, Pattern: what,
		Step: func() { m.spendSteps(l, 1) },
		Fail: func(message string) { l.RaiseError("the pattern %q is wrong: %s", what, message) },
	}
}

// captureValues are what the captures took, or all that matched if there are none.
func captureValues(m *pattern.Matcher, start, end int) []lua.LValue {
	if len(m.Captures) == 0 {
		return []lua.LValue{lua.LString(m.Text[start:end])}
	}
	values := make([]lua.LValue, 0, len(m.Captures))
	for _, c := range m.Captures {
		switch {
		case c.IsUnfinished():
			m.Fail("a '(' has no ')'")
		case c.Length < 0:
			values = append(values, lua.LNumber(c.Start+1))
		default:
			values = append(values, lua.LString(m.Text[c.Start:c.Start+c.Length]))
		}
	}
	return values
}

// textFunctions are those of string that are our own.
func (r *scriptRun) textFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"rep": r.repeatText, "format": r.formatValues, "find": r.findText, "match": r.matchText, "gmatch": r.gmatch, "gsub": r.gsub,
		"lower": r.changeText(strings.ToLower), "upper": r.changeText(strings.ToUpper), "reverse": r.changeText(reversed), "byte": r.bytesOf,
	}
}

func (r *scriptRun) repeatText(l *lua.LState) int {
	text := l.CheckString(1)
	times := l.CheckInt(2)
	if times <= 0 || text == "" {
		l.Push(lua.LString(""))
		return 1
	}
	if times > textMaxBytes {
		times = textMaxBytes + 1
	}
	r.meter.countText(l, len(text)*times)
	l.Push(lua.LString(strings.Repeat(text, times)))
	return 1
}

func (r *scriptRun) changeText(change func(string) string) lua.LGFunction {
	return func(l *lua.LState) int {
		text := l.CheckString(1)
		r.meter.countText(l, len(text))
		l.Push(lua.LString(change(text)))
		return 1
	}
}

func reversed(text string) string {
	turned := make([]byte, len(text))
	for i := range len(text) {
		turned[len(text)-1-i] = text[i]
	}
	return string(turned)
}

func (r *scriptRun) bytesOf(l *lua.LState) int {
	text := l.CheckString(1)
	from := l.OptInt(2, 1)
	start, end := textSpan(len(text), from, l.OptInt(3, from))
	r.meter.countMemory(l, (end-start)*bytesPerSlot)
	for i := start; i < end; i++ {
		l.Push(lua.LNumber(text[i]))
	}
	return end - start
}

// textSpan returns the part of a text that two positions of Lua limit.
func textSpan(length, from, to int) (start, end int) {
	if from < 0 {
		from += length + 1
	}
	if to < 0 {
		to += length + 1
	}
	start, end = max(from, 1)-1, min(to, length)
	return start, max(start, end)
}

// searchStart returns where a search begins that the argument at a place asks for.
func searchStart(l *lua.LState, at int, text string) int {
	begin := l.OptInt(at, 1)
	if begin < 0 {
		begin += len(text) + 1
	}
	return max(begin, 1) - 1
}

func (r *scriptRun) findText(l *lua.LState) int {
	text := l.CheckString(1)
	what := l.CheckString(2)
	begin := searchStart(l, 3, l.CheckString(1))
	if begin > len(text) {
		l.Push(lua.LNil)
		return 1
	}
	if lua.LVAsBool(l.Get(4)) || !strings.ContainsAny(what, "^$*+?.([%-") {
		r.meter.spendSteps(l, len(text)/64)
		i := strings.Index(text[begin:], what)
		if i < 0 {
			l.Push(lua.LNil)
			return 1
		}
		l.Push(lua.LNumber(begin + i + 1))
		l.Push(lua.LNumber(begin + i + len(what)))
		return 2
	}
	m := r.meter.newMatcher(l, text, what)
	start, end, found := m.FindMatch(begin)
	if !found {
		l.Push(lua.LNil)
		return 1
	}
	l.Push(lua.LNumber(start + 1))
	l.Push(lua.LNumber(end))
	if len(m.Captures) == 0 {
		return 2
	}
	return 2 + pushValues(l, captureValues(m, start, end))
}

func pushValues(l *lua.LState, values []lua.LValue) int {
	for _, v := range values {
		l.Push(v)
	}
	return len(values)
}

func (r *scriptRun) matchText(l *lua.LState) int {
	text := l.CheckString(1)
	m := r.meter.newMatcher(l, text, l.CheckString(2))
	start, end, found := m.FindMatch(searchStart(l, 3, text))
	if !found {
		l.Push(lua.LNil)
		return 1
	}
	return pushValues(l, captureValues(m, start, end))
}

func (r *scriptRun) gmatch(l *lua.LState) int {
	text := l.CheckString(1)
	what := l.CheckString(2)
	r.meter.countMemory(l, bytesPerFunction)
	at := 0
	l.Push(l.NewFunction(func(l *lua.LState) int {
		m := r.meter.newMatcher(l, text, what)
		start, end, found := m.FindMatch(at)
		if !found {
			at = len(text) + 1
			return 0
		}
		if at = end; end == start {
			at++
		}
		return pushValues(l, captureValues(m, start, end))
	}))
	return 1
}

func (r *scriptRun) gsub(l *lua.LState) int {
	text := l.CheckString(1)
	what := l.CheckString(2)
	l.CheckTypes(3, lua.LTString, lua.LTNumber, lua.LTTable, lua.LTFunction)
	with := l.Get(3)
	left := l.OptInt(4, len(text)+1)
	m := r.meter.newMatcher(l, text, what)
	var made strings.Builder
	add := func(part string) { r.meter.writeText(l, &made, part) }
	at := 0
	count := 0
	for at <= len(text) && count < left {
		start, end, found := m.FindMatch(at)
		if !found {
			break
		}
		count++
		add(text[at:start])
		add(matchReplacement(l, m, with, start, end))
		if at = end; end == start {
			if at < len(text) {
				add(text[at : at+1])
			}
			at++
		}
		if strings.HasPrefix(what, "^") {
			break
		}
	}
	if at < len(text) {
		add(text[at:])
	}
	l.Push(lua.LString(made.String()))
	l.Push(lua.LNumber(count))
	return 2
}

// matchReplacement returns what a match becomes.
func matchReplacement(l *lua.LState, m *pattern.Matcher, with lua.LValue, start, end int) string {
	values := captureValues(m, start, end)
	var made lua.LValue
	switch with := with.(type) {
	case *lua.LTable:
		made = l.GetTable(with, values[0])
	case *lua.LFunction:
		l.Push(with)
		l.Call(pushValues(l, values), 1)
		made = l.Get(-1)
		l.Pop(1)
	default:
		return expandCaptures(m, lua.LVAsString(with), start, end, values)
	}
	switch {
	case lua.LVIsFalse(made):
		return m.Text[start:end]
	case !lua.LVCanConvToString(made):
		l.RaiseError("string.gsub: a replacement is a %s, want a string", made.Type())
	}
	return lua.LVAsString(made)
}

// expandCaptures returns a replacement with the captures that it refers to.
func expandCaptures(m *pattern.Matcher, with string, start, end int, values []lua.LValue) string {
	if !strings.Contains(with, "%") {
		return with
	}
	var made strings.Builder
	for i := 0; i < len(with) && made.Len() <= textMaxBytes; i++ {
		m.Step()
		if with[i] != '%' || i+1 == len(with) {
			made.WriteByte(with[i])
			continue
		}
		i++
		switch c := with[i]; {
		case c == '0':
			made.WriteString(m.Text[start:end])
		case c >= '1' && c <= '9':
			n := int(c - '1')
			if n >= len(values) {
				m.Fail("there is no capture %" + string(c))
			}
			made.WriteString(lua.LVAsString(values[n]))
		default:
			made.WriteByte(c)
		}
	}
	return made.String()
}
