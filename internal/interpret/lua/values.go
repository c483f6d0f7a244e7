// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// exactMax is up to which size Lua, which has one type of numbers, knows whole
// numbers exactly.
const exactMax = 1 << 53

// null is what an entry of a list is that is null in JSON: a list of Lua cannot
// have nil. In objects null is the same as nothing.
type null struct{}

// toLua returns a value that was decoded from JSON.
func (r *scriptRun) toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		t := l.CreateTable(0, len(v))
		for _, key := range sortedKeys(v) { // which is the order in which scripts see them
			if v[key] != nil {
				t.RawSetString(key, r.toLua(l, v[key]))
			}
		}
		if len(v) == 0 {
			r.empty[t] = map[string]any{}
		}
		return t
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, entry := range v {
			if entry == nil {
				t.Append(&lua.LUserData{Value: null{}, Metatable: lua.LNil})
			} else {
				t.Append(r.toLua(l, entry))
			}
		}
		if len(v) == 0 {
			r.empty[t] = []any{}
		}
		return t
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case int32:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	default:
		return lua.LNil
	}
}

func sortedKeys(object map[string]any) []string {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// countValues returns how many values a value has in it.
func countValues(value any) int {
	total := 1
	switch v := value.(type) {
	case map[string]any:
		for _, entry := range v {
			total += countValues(entry)
		}
	case []any:
		for _, entry := range v {
			total += countValues(entry)
		}
	}
	return total
}

// fromLua returns a value as it would be decoded from JSON. What Lua does not
// tell apart is as in the values that the script was given, at the same place: an
// empty list or an empty object, a whole number or another one, and numbers that
// Lua knows only nearly.
func (r *scriptRun) fromLua(value lua.LValue, like []any) (any, error) {
	c := &converter{run: r}
	made, err := c.convertValue(value, like, 0)
	if err != nil {
		return nil, err
	}
	return made, nil
}

type converter struct {
	run  *scriptRun
	path []string
}

// errNothing is that of an empty table of which nobody knows what it is.
var errNothing = errors.New("neither a list nor an object")

func (c *converter) convertValue(value lua.LValue, like []any, depth int) (any, error) {
	if c.run.meter.takeSteps(1); c.run.meter.exceeded != nil {
		return nil, c.run.meter.exceeded
	}
	if depth > nestedMax {
		return nil, fmt.Errorf("it is nested deeper than %d, or contains itself", nestedMax)
	}
	switch v := value.(type) {
	case *lua.LTable:
		return c.convertTable(v, like, depth)
	case lua.LString:
		if c.run.meter.bytes -= len(v); c.run.meter.bytes < 0 {
			return nil, errors.New("it is too large")
		}
		return string(v), nil
	case lua.LBool:
		return bool(v), nil
	case lua.LNumber:
		return c.convertNumber(float64(v), like)
	case *lua.LNilType:
		return nil, nil
	case *lua.LUserData:
		if _, is := v.Value.(null); is {
			return nil, nil
		}
	}
	return nil, c.valueError("is a %s, which JSON does not have", value.Type())
}

func (c *converter) valueError(format string, arguments ...any) error {
	where := "it"
	for i, part := range c.path {
		if i == 0 {
			where = part
		} else {
			where += "." + part
		}
	}
	return fmt.Errorf("%s %s", where, fmt.Sprintf(format, arguments...))
}

func (c *converter) convertNumber(v float64, like []any) (any, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, c.valueError("is not a finite number")
	}
	for _, l := range like {
		switch l := l.(type) {
		case int64:
			if float64(l) == v {
				return l, nil
			}
		case float64:
			if l == v {
				return l, nil
			}
		}
	}
	if v == math.Trunc(v) && math.Abs(v) <= exactMax {
		return int64(v), nil
	}
	return v, nil
}

func (c *converter) convertTable(t *lua.LTable, like []any, depth int) (any, error) {
	length := t.MaxN()
	named := 0
	key, _ := t.Next(lua.LNil)
	for ; key != lua.LNil; key, _ = t.Next(key) {
		switch key.(type) {
		case lua.LString:
			named++
		case lua.LNumber:
		default:
			return nil, c.valueError("has a key that is a %s, want a string", key.Type())
		}
		if named > 0 && length > 0 {
			return nil, c.valueError("has both numbers and names as keys: it has to be a list or an object")
		}
	}
	switch {
	case length > 0:
		return c.convertList(t, length, like, depth)
	case named > 0:
		return c.convertObject(t, like, depth)
	default:
		return c.convertEmpty(t, like)
	}
}

// convertEmpty returns an empty table.
func (c *converter) convertEmpty(t *lua.LTable, like []any) (any, error) {
	if was, known := c.run.empty[t]; known {
		like = []any{was}
	}
	for _, l := range like {
		switch l.(type) {
		case []any:
			return []any{}, nil
		case map[string]any:
			return map[string]any{}, nil
		}
	}
	if len(c.path) == 0 {
		return map[string]any{}, nil
	}
	return nil, errNothing
}

func (c *converter) convertList(t *lua.LTable, length int, like []any, depth int) (any, error) {
	made := make([]any, 0, min(length, 1024))
	for i := 1; i <= length; i++ {
		value := t.RawGetInt(i)
		if value == lua.LNil {
			return nil, c.valueError("has nothing at position %d, and %d entries: a list has no gaps", i, length)
		}
		c.path = append(c.path, strconv.Itoa(i))
		entry, err := c.convertValue(value, entriesLike(like, i-1), depth+1)
		if errors.Is(err, errNothing) {
			entry = map[string]any{}
			err = nil
		}
		if err != nil {
			return nil, err
		}
		c.path = c.path[:len(c.path)-1]
		made = append(made, entry)
	}
	return made, nil
}

// likeMax is with how many other entries of a list one is compared.
const likeMax = 4

// entriesLike are the entries that one is compared with: that of the same place
// first.
func entriesLike(like []any, i int) []any {
	var entries []any
	for _, l := range like {
		list, is := l.([]any)
		if !is {
			continue
		}
		if i < len(list) {
			entries = append(entries, list[i])
		}
		entries = append(entries, list[:min(len(list), likeMax)]...)
	}
	return entries
}

func (c *converter) convertObject(t *lua.LTable, like []any, depth int) (any, error) {
	made := map[string]any{}
	for key, value := t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		field, is := key.(lua.LString)
		if !is {
			return nil, c.valueError("has key %s, which is not a string", key.String())
		}
		var fields []any
		for _, l := range like {
			if object, is := l.(map[string]any); is {
				if v, has := object[string(field)]; has {
					fields = append(fields, v)
				}
			}
		}
		c.path = append(c.path, string(field))
		entry, err := c.convertValue(value, fields, depth+1)
		switch {
		case errors.Is(err, errNothing): // it is left out: either would be a guess
		case err != nil:
			return nil, err
		case entry != nil:
			made[string(field)] = entry
		}
		c.path = c.path[:len(c.path)-1]
	}
	return made, nil
}
