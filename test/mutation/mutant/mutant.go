// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutant is what the mutated sources of the product call in place of using
// a field or a reason. At most one mutant is on in a process: environment variables
// say which, and what the product finds instead. No package imports it but in the
// overlay that test/mutation makes.
package mutant

import (
	"os"
	"reflect"
	"sync"
)

// The variables that choose the mutant of a process.
const (
	// Variable has the name of the mutant that is on.
	Variable = "CAPSTAN_MUTANT"
	// ValueVariable has what the product finds in the field: Zero, Other, or Text
	// and a text.
	ValueVariable = "CAPSTAN_MUTANT_VALUE"
	// ReachedVariable names the file to which the mutants are appended that the
	// process came to, on or not, a line each.
	ReachedVariable = "CAPSTAN_MUTANT_REACHED"
)

// What a process finds in the field of a mutant.
const (
	Zero  = "zero"
	Other = "other"
	Text  = "="
)

// state is the mutant of the process. Mutated code may run at any moment, so there
// is no one to hand it over.
var state = sync.OnceValue(fromEnvironment)

type process struct {
	on, value, file string
	reached         sync.Map
}

func fromEnvironment() *process {
	return &process{on: os.Getenv(Variable), value: os.Getenv(ValueVariable), file: os.Getenv(ReachedVariable)}
}

// isOn reports whether a mutant is on, and notes that the process came to it.
func isOn(name string) bool {
	p := state()
	if p.file != "" {
		if _, known := p.reached.LoadOrStore(name, true); !known {
			p.note(name)
		}
	}
	return name == p.on
}

func (p *process) note(name string) {
	file, err := os.OpenFile(p.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic("noting which mutants are reached: " + err.Error()) // the mutant would pass for one that is not reached
	}
	_, _ = file.WriteString(name + "\n")
	_ = file.Close()
}

// Read stands for a field that is read.
func Read[T any](name string, value T) T {
	if isOn(name) {
		return changed(value, state().value)
	}
	return value
}

// Write stands for a value that a field gets.
func Write[T any](name string, value T) T { return Read(name, value) }

// Reason stands for the constant of a reason.
func Reason[T ~string](name string, value T) T {
	if isOn(name) {
		return value + "Mutated"
	}
	return value
}

// Into stands for a field of which a part is written to: what is written is lost.
func Into[T any](name string, field *T) *T {
	if isOn(name) {
		return lost(field)
	}
	return field
}

// Ref stands for a field whose address is taken, to read it or to write to it.
func Ref[T any](read, write string, field *T) *T {
	if isOn(read) {
		value := changed(*field, state().value)
		return &value
	}
	return Into(write, field)
}

// lost returns a copy of a field, also of the list, map or struct that it points to.
func lost[T any](field *T) *T {
	value := *field
	v := reflect.ValueOf(&value).Elem()
	switch {
	case v.Kind() == reflect.Slice && !v.IsNil():
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
	case v.Kind() == reflect.Map:
		clone := reflect.MakeMap(v.Type())
		for _, key := range v.MapKeys() {
			clone.SetMapIndex(key, v.MapIndex(key))
		}
		v.Set(clone)
	case v.Kind() == reflect.Pointer && !v.IsNil():
		clone := reflect.New(v.Type().Elem())
		clone.Elem().Set(v.Elem())
		v.Set(clone)
	}
	return &value
}

// Converted stands for a struct that is made of one of another type, with a field
// that gets its value so.
func Converted[T, F any](name string, field func(*T) *F, value T) T {
	*field(&value) = Write(name, *field(&value))
	return value
}
