// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pattern

import "strings"

// classEnd returns the end of the class of characters that begins at p.
func (m *Matcher) classEnd(p int) int {
	switch m.Pattern[p] {
	case '%':
		if p+1 >= len(m.Pattern) {
			m.Fail("it ends with '%'")
		}
		return p + 2
	case '[':
		i := p + 1
		if i < len(m.Pattern) && m.Pattern[i] == '^' {
			i++
		}
		for first := true; ; first = false {
			switch {
			case i >= len(m.Pattern):
				m.Fail("a '[' has no ']'")
			case m.Pattern[i] == ']' && !first:
				return i + 1
			case m.Pattern[i] == '%':
				i += 2
			default:
				i++
			}
		}
	default:
		return p + 1
	}
}

// fitsClass reports whether a character is of the class between p and end.
func (m *Matcher) fitsClass(c byte, p, end int) bool {
	switch m.Pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.Pattern[p+1])
	case '[':
		return m.inSet(c, p, end)
	default:
		return c == m.Pattern[p]
	}
}

// inSet reports whether a character is in the set in brackets between p and end.
func (m *Matcher) inSet(c byte, p, end int) bool {
	set := m.Pattern[p+1 : end-1]
	set, negated := strings.CutPrefix(set, "^")
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '%' && i+1 < len(set):
			i++
			if inClass(c, set[i]) {
				return !negated
			}
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return !negated
			}
			i += 2
		case set[i] == c:
			return !negated
		}
	}
	return negated
}

// inClass reports whether a character is of the class that a letter stands for: of
// all others if it is a capital letter. Any other character stands for itself.
func inClass(c, class byte) bool {
	is, known := ofClass(c, class|0x20)
	if !known || !isLetter(class) {
		return c == class
	}
	return is == (class&0x20 != 0)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || (c|0x20 >= 'a' && c|0x20 <= 'f') }
func isMark(c byte) bool   { return c > 0x20 && c < 0x7f && !isLetter(c) && !isDigit(c) }
func isBlank(c byte) bool  { return c == ' ' || (c >= '\t' && c <= '\r') }

func ofClass(c, class byte) (is, known bool) {
	switch class {
	case 'a':
		is = isLetter(c)
	case 'c':
		is = c < 0x20 || c == 0x7f
	case 'd':
		is = isDigit(c)
	case 'l':
		is = isLetter(c) && c&0x20 != 0
	case 'p':
		is = isMark(c)
	case 's':
		is = isBlank(c)
	case 'u':
		is = isLetter(c) && c&0x20 == 0
	case 'w':
		is = isLetter(c) || isDigit(c)
	case 'x':
		is = isHex(c)
	case 'z':
		is = c == 0
	default:
		return false, false
	}
	return is, true
}
