// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pattern matches texts against patterns of Lua 5.1, and lets the caller
// count the steps: there are patterns that take more steps than there are atoms.
package pattern

import (
	"strings"
)

// capturesMax is how many parts a pattern of Lua can take out of a text.
const capturesMax = 32

// The lengths of captures that are none yet, or a position.
const (
	unfinished = -1
	position   = -2
)

// Capture is what a part of a pattern in parentheses took out of a text: so many
// bytes from Start on; a Length below zero says that it is the place itself.
type Capture struct{ Start, Length int }

// Matcher matches a text against a pattern.
type Matcher struct {
	Text, Pattern string
	// Captures are those of what was found last.
	Captures []Capture
	// Step is called at each step, and may panic.
	Step func()
	// Fail is called if the pattern is none, with the reason, and has to panic.
	Fail func(message string)
}

// FindMatch returns where the pattern matches first, at a place or after it.
func (m *Matcher) FindMatch(from int) (start, end int, found bool) {
	begin := 0
	anchored := strings.HasPrefix(m.Pattern, "^")
	if anchored {
		begin = 1
	}
	for ; from <= len(m.Text); from++ {
		m.Step()
		m.Captures = m.Captures[:0]
		if end := m.matchFrom(from, begin); end >= 0 {
			return from, end, true
		}
		if anchored {
			break
		}
	}
	return 0, 0, false
}

// matchFrom matches the text at s against the pattern at p, and returns the end of
// what matches, or -1.
func (m *Matcher) matchFrom(s, p int) int {
	for p < len(m.Pattern) {
		m.Step()
		switch m.Pattern[p] {
		case '(':
			return m.openCapture(s, p)
		case ')':
			return m.closeCapture(s, p)
		case '$':
			if p+1 == len(m.Pattern) {
				if s == len(m.Text) {
					return s
				}
				return -1
			}
		}
		next, after, special := m.matchSpecial(s, p)
		if !special {
			var done bool
			if next, after, done = m.matchItem(s, p); done {
				return next
			}
		}
		if next < 0 {
			return -1
		}
		s = next
		p = after
	}
	return s
}

// matchItem matches one class with what says how often. It is done if it has tried
// the rest of the pattern as well.
func (m *Matcher) matchItem(s, p int) (next, after int, done bool) {
	end := m.classEnd(p)
	often := byte(0)
	if end < len(m.Pattern) {
		often = m.Pattern[end]
	}
	fits := s < len(m.Text) && m.fitsClass(m.Text[s], p, end)
	switch often {
	case '?':
		if fits {
			if next := m.matchFrom(s+1, end+1); next >= 0 {
				return next, 0, true
			}
		}
		return s, end + 1, false
	case '+', '*':
		if often == '+' && !fits {
			return -1, 0, true
		}
		return m.longest(s, p, end, often == '+'), 0, true
	case '-':
		return m.shortest(s, p, end), 0, true
	}
	if !fits {
		return -1, 0, true
	}
	return s + 1, end, false
}

func (m *Matcher) longest(s, p, end int, once bool) int {
	count := 0
	least := 0
	if once {
		least = 1
	}
	for s+count < len(m.Text) && m.fitsClass(m.Text[s+count], p, end) {
		m.Step()
		count++
	}
	for ; count >= least; count-- {
		m.Step()
		if next := m.matchFrom(s+count, end+1); next >= 0 {
			return next
		}
	}
	return -1
}

func (m *Matcher) shortest(s, p, end int) int {
	for {
		m.Step()
		if next := m.matchFrom(s, end+1); next >= 0 {
			return next
		}
		if s >= len(m.Text) || !m.fitsClass(m.Text[s], p, end) {
			return -1
		}
		s++
	}
}

// matchSpecial matches %b, %f and %1 to %9.
func (m *Matcher) matchSpecial(s, p int) (next, after int, is bool) {
	if m.Pattern[p] != '%' || p+1 >= len(m.Pattern) {
		return 0, 0, false
	}
	switch c := m.Pattern[p+1]; {
	case c == 'b':
		if p+3 >= len(m.Pattern) {
			m.Fail("%b needs two characters")
		}
		return m.balanced(s, m.Pattern[p+2], m.Pattern[p+3]), p + 4, true
	case c == 'f':
		return m.frontier(s, p+2)
	case isDigit(c):
		return m.matchCapture(s, c), p + 2, true
	}
	return 0, 0, false
}

// frontier matches where a set begins: what is before is not in it.
func (m *Matcher) frontier(s, set int) (next, after int, is bool) {
	if set >= len(m.Pattern) || m.Pattern[set] != '[' {
		m.Fail("%f needs a set in brackets")
	}
	end := m.classEnd(set)
	before := byte(0)
	here := byte(0)
	if s > 0 {
		before = m.Text[s-1]
	}
	if s < len(m.Text) {
		here = m.Text[s]
	}
	if m.inSet(before, set, end) || !m.inSet(here, set, end) {
		return -1, end, true
	}
	return s, end, true
}

// matchCapture matches what a capture has taken.
func (m *Matcher) matchCapture(s int, number byte) int {
	i := int(number) - '1'
	if i < 0 || i >= len(m.Captures) || m.Captures[i].Length < 0 {
		m.Fail("there is no capture %" + string(number))
	}
	taken := m.Text[m.Captures[i].Start : m.Captures[i].Start+m.Captures[i].Length]
	if !strings.HasPrefix(m.Text[s:], taken) {
		return -1
	}
	return s + len(taken)
}

func (m *Matcher) balanced(s int, opens, closes byte) int {
	if s >= len(m.Text) || m.Text[s] != opens {
		return -1
	}
	depth := 1
	for i := s + 1; i < len(m.Text); i++ {
		m.Step()
		switch m.Text[i] {
		case closes:
			if depth--; depth == 0 {
				return i + 1
			}
		case opens:
			depth++
		}
	}
	return -1
}

// openCapture begins a capture, which is a position if nothing is in it.
func (m *Matcher) openCapture(s, p int) int {
	if len(m.Captures) >= capturesMax {
		m.Fail("it has too many captures")
	}
	length := unfinished
	rest := p + 1
	if rest < len(m.Pattern) && m.Pattern[rest] == ')' {
		length = position
		rest = p + 2
	}
	level := len(m.Captures)
	m.Captures = append(m.Captures, Capture{Start: s, Length: length})
	next := m.matchFrom(s, rest)
	if next < 0 {
		m.Captures = m.Captures[:level]
	}
	return next
}

// closeCapture ends the innermost capture that is open.
func (m *Matcher) closeCapture(s, p int) int {
	for i := len(m.Captures) - 1; i >= 0; i-- {
		if m.Captures[i].Length != unfinished {
			continue
		}
		m.Captures[i].Length = s - m.Captures[i].Start
		next := m.matchFrom(s, p+1)
		if next < 0 {
			m.Captures[i].Length = unfinished
		}
		return next
	}
	m.Fail("a ')' has no '('")
	return -1
}

// IsUnfinished reports whether a capture was not ended.
func (c Capture) IsUnfinished() bool { return c.Length == unfinished }
