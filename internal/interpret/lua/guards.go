// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	lua "github.com/yuin/gopher-lua"
)

// joinValues joins its arguments, as ".." does: from the right.
func (m *runMeter) joinValues(l *lua.LState) int {
	length := 0
	for i := 1; i <= l.GetTop(); i++ {
		if !lua.LVCanConvToString(l.Get(i)) {
			l.Push(m.joinOthers(l))
			return 1
		}
		length += len(lua.LVAsString(l.Get(i)))
	}
	m.countText(l, length)
	joined := make([]byte, 0, length)
	for i := 1; i <= l.GetTop(); i++ {
		joined = append(joined, lua.LVAsString(l.Get(i))...)
	}
	l.Push(lua.LString(joined))
	return 1
}

// joinOthers joins arguments of which some are tables that may say how.
func (m *runMeter) joinOthers(l *lua.LState) lua.LValue {
	right := l.Get(l.GetTop())
	for i := l.GetTop() - 1; i > 0; i-- {
		left := l.Get(i)
		if lua.LVCanConvToString(left) && lua.LVCanConvToString(right) {
			joined := lua.LVAsString(left) + lua.LVAsString(right)
			m.countText(l, len(joined))
			right = lua.LString(joined)
			continue
		}
		how := l.GetMetaField(left, "__concat")
		if how == lua.LNil {
			how = l.GetMetaField(right, "__concat")
		}
		if how == lua.LNil {
			wrong := left
			if lua.LVCanConvToString(left) {
				wrong = right
			}
			l.RaiseError("attempt to concatenate a %s value", wrong.Type())
		}
		l.Push(how)
		l.Push(left)
		l.Push(right)
		l.Call(2, 1)
		right = l.Get(-1)
		l.Pop(1)
	}
	return right
}

// setField stores a value in a table.
func (m *runMeter) setField(l *lua.LState) int {
	if t, is := l.Get(1).(*lua.LTable); is {
		m.countGrowth(l, t, l.Get(2))
	}
	l.SetTable(l.Get(1), l.Get(2), l.Get(3))
	return 0
}

// countGrowth counts what a list becomes longer by: all places up to a number are
// taken.
func (m *runMeter) countGrowth(l *lua.LState, t *lua.LTable, key lua.LValue) {
	n, is := key.(lua.LNumber)
	if !is || n < 1 || n >= lua.LNumber(lua.MaxArrayIndex) {
		return
	}
	if more := int(n) - t.MaxN(); more > 0 {
		m.countMemory(l, more*bytesPerSlot)
	}
}

// countKey counts the places of a new table up to a number.
func (m *runMeter) countKey(l *lua.LState) int {
	if n, is := l.Get(1).(lua.LNumber); is && n >= 1 && n < lua.LNumber(lua.MaxArrayIndex) {
		m.countMemory(l, int(n)*bytesPerSlot)
	}
	l.SetTop(1)
	return 1
}

// countMade counts a table or a function, and returns it.
func (m *runMeter) countMade(l *lua.LState) int {
	if t, is := l.Get(1).(*lua.LTable); is {
		m.countMemory(l, bytesPerTable+t.MaxN()*bytesPerSlot)
	} else {
		m.countMemory(l, bytesPerFunction)
	}
	l.SetTop(1)
	return 1
}

// countList counts the values that a new list ends with, and returns them. Places of
// nil are taken as well, but made does not see them.
func (m *runMeter) countList(l *lua.LState) int {
	m.countMemory(l, l.GetTop()*bytesPerSlot)
	return l.GetTop()
}

// countArguments counts what a function is called with.
func (m *runMeter) countArguments(l *lua.LState) int {
	m.countMemory(l, l.GetTop()*bytesPerSlot)
	return 0
}
