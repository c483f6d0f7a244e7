// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escaped is a writer of text whose control characters the terminal does not obey: it
// shows them as \u001b and the like, which JSON and YAML read as the same characters.
// Clusters say of themselves what they like, in conditions, labels and versions, and one
// that could move the cursor could make its lines say something else.
//
// Line feeds and tabs are left as they are. Characters that turn the direction of the
// text, or that nobody sees, are control characters.
type Escaped struct {
	to io.Writer
	// begun is the begin of a character that the next Write ends.
	begun []byte
}

// Escape returns a writer that writes to another one.
func Escape(to io.Writer) *Escaped { return &Escaped{to: to} }

// Unescaped returns the writer behind an Escaped, for control characters of our own; any
// other writer as it is.
func Unescaped(out io.Writer) io.Writer {
	if escaped, is := out.(*Escaped); is {
		return escaped.to
	}
	return out
}

// Write implements io.Writer.
func (e *Escaped) Write(text []byte) (int, error) {
	all := slices.Concat(e.begun, text)
	end := len(all) - begunBytes(all)
	e.begun = slices.Clone(all[end:])
	if _, err := e.to.Write([]byte(EscapeText(string(all[:end])))); err != nil {
		return 0, err //nolint:wrapcheck // it is the other writer's
	}
	return len(text), nil
}

// begunBytes returns how many bytes at the end of a text are the begin of a character.
func begunBytes(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// EscapeText returns a text as Escaped writes it.
func EscapeText(text string) string {
	if strings.IndexFunc(text, isControlRune) < 0 {
		return text
	}
	var escaped strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1: // no text: C1 in Latin-1, for one
			fmt.Fprintf(&escaped, `\u00%02x`, text[i])
		case r > 0xffff && isControlRune(r): // as JSON has it
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		case isControlRune(r):
			fmt.Fprintf(&escaped, `\u%04x`, r)
		default:
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// isControlRune reports whether a terminal does something else with a character than show it:
// those of ECMA-48 (C0, DEL and C1), and those that Unicode has for formatting, which are
// not shown, as in a word that looks like another one, or turn the direction of the text
// (UAX #9).
func isControlRune(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f || r == utf8.RuneError:
		return true
	default:
		return unicode.Is(unicode.Cf, r)
	}
}
