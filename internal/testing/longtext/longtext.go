// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package longtext makes objects as a server sends them that wants others to run out of memory:
// each of their texts is long.
package longtext

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Fill sets every text of an object to one of so many bytes. Lists and maps have one entry.
func Fill(object any, bytes int) {
	fill(reflect.ValueOf(object).Elem(), strings.Repeat("x", bytes))
}

func fill(value reflect.Value, text string) {
	if !value.CanSet() || value.Type() == reflect.TypeFor[resource.Quantity]() {
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(text)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), text)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0), text)
	case reflect.Map:
		key, entry := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key, text)
		fill(entry, text)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, entry)
	case reflect.Struct:
		for i := range value.NumField() {
			fill(value.Field(i), text)
		}
	default:
	}
}

// Bytes returns how many bytes the texts of an object have together.
func Bytes(object any) int { return textBytes(reflect.ValueOf(object)) }

func textBytes(value reflect.Value) (bytes int) {
	switch value.Kind() {
	case reflect.String:
		return value.Len()
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			return textBytes(value.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			bytes += textBytes(value.Index(i))
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			bytes += textBytes(entries.Key()) + textBytes(entries.Value())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			bytes += textBytes(value.Field(i))
		}
	default:
	}
	return bytes
}
