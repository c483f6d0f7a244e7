// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The functions of Kubernetes for quantities, addresses, URLs and formats are
// made here, as the package that has them, k8s.io/apiserver, would bring a
// whole API server into the agent. What they read is short, so that a call
// costs next to nothing: the limits are here. A longer text is not one of what
// the function reads.
const (
	// quantityBytesMax is the length of a quantity in bytes.
	quantityBytesMax = 100
	// exponentDigitsMax is how many digits the exponent of a quantity has, as
	// reading one writes out all of its zeros.
	exponentDigitsMax = 2
	// addressBytesMax is the length of an IP address or a CIDR in bytes.
	addressBytesMax = 64
	// urlBytesMax is the length of a URL in bytes.
	urlBytesMax = 8 << 10
	// formattedBytesMax is the length in bytes of a text that a format validates.
	formattedBytesMax = 8 << 10
)

// opaque is a value that only functions can look into.
type opaque[T any] struct {
	kind  *cel.Type
	value T
	equal func(a, b T) bool
	text  string
}

// ConvertToNative implements ref.Val.
func (o opaque[T]) ConvertToNative(to reflect.Type) (any, error) {
	if reflect.TypeFor[T]().AssignableTo(to) {
		return o.value, nil
	}
	if to.Kind() == reflect.String {
		return o.text, nil
	}
	return nil, fmt.Errorf("a %s cannot be a %s", o.kind, to)
}

// ConvertToType implements ref.Val.
func (o opaque[T]) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case o.kind:
		return o
	case types.StringType:
		return types.String(o.text)
	case types.TypeType:
		return o.kind
	}
	return types.NewErr("a %s cannot be a %s", o.kind, to)
}

// Equal implements ref.Val.
func (o opaque[T]) Equal(other ref.Val) ref.Val {
	same, ok := other.(opaque[T])
	return types.Bool(ok && o.equal(o.value, same.value))
}

// Type implements ref.Val.
func (o opaque[T]) Type() ref.Type { return o.kind }

// Value implements ref.Val.
func (o opaque[T]) Value() any { return o.value }

// length is how many bytes the value has as a text, which is what a call costs
// that looks into it.
func (o opaque[T]) length() int { return len(o.text) }

// declaration has what is the same for all functions of a library.
type declaration struct{ options []cel.EnvOption }

// global declares a function of texts and values, such as ip(text).
func (d *declaration) global(name, id string, arg, result *cel.Type, call func(ref.Val) ref.Val) {
	d.options = append(d.options, cel.Function(name, cel.Overload(id, []*cel.Type{arg}, result, cel.UnaryBinding(call))))
}

// member declares a function of a value, such as ip.family().
func (d *declaration) member(name, id string, of, result *cel.Type, call func(ref.Val) ref.Val) {
	d.options = append(d.options, cel.Function(name, cel.MemberOverload(id, []*cel.Type{of}, result, cel.UnaryBinding(call))))
}

// with declares a function of a value with an argument, such as a.add(b).
func (d *declaration) with(name, id string, of, arg, result *cel.Type, call func(a, b ref.Val) ref.Val) {
	d.options = append(d.options, cel.Function(name, cel.MemberOverload(id, []*cel.Type{of, arg}, result, cel.BinaryBinding(call))))
}

// of makes a function of CEL from one of what an opaque value has.
func of[T any, R ref.Val](call func(T) R) func(ref.Val) ref.Val {
	return func(value ref.Val) ref.Val {
		o, ok := value.(opaque[T])
		if !ok {
			return types.MaybeNoSuchOverloadErr(value)
		}
		return call(o.value)
	}
}

// reading makes the two functions that each kind of text has: one that reads
// it, and one that tells whether it can be read.
func reading[T any](read func(string) (T, error), wrap func(T) ref.Val) (value, valid func(ref.Val) ref.Val) {
	value = func(text ref.Val) ref.Val {
		s, ok := text.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(text)
		}
		got, err := read(string(s))
		if err != nil {
			return types.NewErr("%v", err)
		}
		return wrap(got)
	}
	valid = func(text ref.Val) ref.Val {
		s, ok := text.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(text)
		}
		_, err := read(string(s))
		return types.Bool(err == nil)
	}
	return value, valid
}
