// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"reflect"
	"strings"
)

// changed returns what the product finds instead of a value.
func changed[T any](value T, how string) T {
	v := reflect.ValueOf(&value).Elem()
	text, isText := strings.CutPrefix(how, Text)
	switch {
	case isText:
		setText(v, text)
	case how == Other:
		setOther(v)
	default:
		v.SetZero()
	}
	return value
}

// setText sets a text, or the text that a pointer leads to.
func setText(v reflect.Value, text string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	v.SetString(text)
}

// setOther sets another value of the same kind: a list loses its first item, what is
// pointed to is empty if it is a struct, and what has no other value of its kind stays.
func setOther(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the runner asks for no others
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.String:
		v.SetString(v.String() + "-mutated")
	case reflect.Slice:
		if v.Len() > 0 {
			v.Set(v.Slice(1, v.Len()))
		}
	case reflect.Pointer:
		pointee := reflect.New(v.Type().Elem())
		if !v.IsNil() && pointee.Elem().Kind() != reflect.Struct {
			pointee.Elem().Set(v.Elem())
		}
		setOther(pointee.Elem())
		v.Set(pointee)
	}
}
