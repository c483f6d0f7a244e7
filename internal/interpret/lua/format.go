// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// formatDigitsMax limits the digits of a width, and of a precision.
const formatDigitsMax = 2

// directive is a part of a format that stands for a value.
type directive struct {
	// flags are all between '%' and the verb.
	flags string
	verb  byte
	next  int
}

// formatValues writes values as Lua does: not by Go's verbs, which write values of Go.
func (r *scriptRun) formatValues(l *lua.LState) int {
	format := l.CheckString(1)
	var made strings.Builder
	value := 1
	for i := 0; i < len(format); {
		if format[i] != '%' {
			end := strings.IndexByte(format[i:], '%')
			if end < 0 {
				end = len(format) - i
			}
			r.meter.writeText(l, &made, format[i:i+end])
			i += end
			continue
		}
		d, ok := readDirective(format, i+1)
		if !ok {
			l.RaiseError("string.format: the format %q is not supported at byte %d", limitMessage(format), i+1)
		}
		i = d.next
		if d.verb == '%' {
			r.meter.writeText(l, &made, "%")
			continue
		}
		if value++; value > l.GetTop() {
			l.RaiseError("string.format: the format %q needs more values than the %d that it is given", limitMessage(format), l.GetTop()-1)
		}
		r.meter.writeText(l, &made, d.formatArgument(l, value))
	}
	l.Push(lua.LString(made.String()))
	return 1
}

// writeText adds to a text that is being made, and counts it.
func (m *runMeter) writeText(l *lua.LState, made *strings.Builder, part string) {
	if made.Len()+len(part) > textMaxBytes {
		m.countText(l, textMaxBytes+1)
	}
	m.countMemory(l, len(part))
	made.WriteString(part)
}

func readDirective(format string, i int) (directive, bool) {
	begin := i
	for i < len(format) && strings.IndexByte("-+ #0", format[i]) >= 0 {
		i++
	}
	width := countDigits(format, i)
	i += width
	precision := 0
	if i < len(format) && format[i] == '.' {
		precision = countDigits(format, i+1)
		i += 1 + precision
	}
	if width > formatDigitsMax || precision > formatDigitsMax || i >= len(format) || i-begin > 2*formatDigitsMax+6 {
		return directive{}, false
	}
	return directive{flags: format[begin:i], verb: format[i], next: i + 1}, strings.IndexByte("cdiouxXeEfgGqs%", format[i]) >= 0
}

func countDigits(format string, i int) int {
	count := 0
	for i+count < len(format) && format[i+count] >= '0' && format[i+count] <= '9' {
		count++
	}
	return count
}

// formatArgument returns the value of an argument as the directive wants it.
func (d directive) formatArgument(l *lua.LState, at int) string {
	switch d.verb {
	case 's':
		return fmt.Sprintf("%"+d.flags+"s", l.ToStringMeta(l.CheckAny(at)).String())
	case 'q':
		return `"` + quoteText(l.CheckString(at)) + `"`
	case 'c':
		return string([]byte{byte(l.CheckInt(at) & 0xff)})
	case 'd', 'i', 'u':
		return fmt.Sprintf("%"+d.flags+"d", int64(l.CheckNumber(at)))
	case 'o', 'x', 'X':
		return fmt.Sprintf("%"+d.flags+string(d.verb), int64(l.CheckNumber(at)))
	default:
		flags := d.flags
		if (d.verb == 'g' || d.verb == 'G') && !strings.Contains(flags, ".") {
			flags += ".6"
		}
		return fmt.Sprintf("%"+flags+string(d.verb), float64(l.CheckNumber(at)))
	}
}

func quoteText(text string) string {
	return strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\\n", "\r", "\\r", "\x00", "\\000").Replace(text)
}
