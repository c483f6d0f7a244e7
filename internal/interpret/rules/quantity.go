// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantityValue(kind *cel.Type, q *resource.Quantity) ref.Val {
	return opaque[*resource.Quantity]{
		kind: kind, value: q, text: q.String(), equal: func(a, b *resource.Quantity) bool { return a.Cmp(*b) == 0 },
	}
}

// quantities declares the functions on quantities of resources, such as 500Mi.
func quantities() []cel.EnvOption {
	kind := cel.ObjectType("kubernetes.Quantity")
	d := &declaration{}
	wrap := func(q *resource.Quantity) ref.Val { return quantityValue(kind, q) }
	value, valid := reading(readQuantity, wrap)
	d.global("quantity", "string_to_quantity", cel.StringType, kind, value)
	d.global("isQuantity", "is_quantity_string", cel.StringType, cel.BoolType, valid)
	d.member("sign", "quantity_sign", kind, cel.IntType, of(func(q *resource.Quantity) ref.Val { return types.Int(q.Sign()) }))
	d.member("isInteger", "quantity_is_integer", kind, cel.BoolType, of(func(q *resource.Quantity) ref.Val {
		_, ok := q.AsInt64()
		return types.Bool(ok)
	}))
	d.member("asInteger", "quantity_as_integer", kind, cel.IntType, of(func(q *resource.Quantity) ref.Val {
		whole, ok := q.AsInt64()
		if !ok {
			return types.NewErr("the quantity %s is not a whole number of 64 bits", q)
		}
		return types.Int(whole)
	}))
	d.member("asApproximateFloat", "quantity_as_float", kind, cel.DoubleType,
		of(func(q *resource.Quantity) ref.Val { return types.Double(q.AsApproximateFloat64()) }))
	compare := func(name, id string, result *cel.Type, tell func(order int) ref.Val) {
		d.with(name, id, kind, kind, result, func(a, b ref.Val) ref.Val {
			return withTwo(a, b, func(x, y *resource.Quantity) ref.Val { return tell(x.Cmp(*y)) })
		})
	}
	compare("isLessThan", "quantity_is_less_than", cel.BoolType, func(order int) ref.Val { return types.Bool(order < 0) })
	compare("isGreaterThan", "quantity_is_greater_than", cel.BoolType, func(order int) ref.Val { return types.Bool(order > 0) })
	compare("compareTo", "quantity_compare_to", cel.IntType, func(order int) ref.Val { return types.Int(order) })
	for name, change := range map[string]func(sum *resource.Quantity, other resource.Quantity){
		"add": func(sum *resource.Quantity, other resource.Quantity) { sum.Add(other) },
		"sub": func(sum *resource.Quantity, other resource.Quantity) { sum.Sub(other) },
	} {
		changed := func(x, y *resource.Quantity) ref.Val {
			sum := x.DeepCopy()
			change(&sum, *y)
			return wrap(&sum)
		}
		d.with(name, "quantity_"+name, kind, kind, kind, func(a, b ref.Val) ref.Val { return withTwo(a, b, changed) })
		d.with(name, "quantity_"+name+"_int", kind, cel.IntType, kind, func(a, b ref.Val) ref.Val {
			whole, ok := b.(types.Int)
			if !ok {
				return types.MaybeNoSuchOverloadErr(b)
			}
			return withTwo(a, wrap(resource.NewQuantity(int64(whole), resource.DecimalSI)), changed)
		})
	}
	return d.options
}

// withTwo calls a function of two opaque values.
func withTwo[T any](a, b ref.Val, call func(x, y T) ref.Val) ref.Val {
	x, ok := a.(opaque[T])
	if !ok {
		return types.MaybeNoSuchOverloadErr(a)
	}
	y, ok := b.(opaque[T])
	if !ok {
		return types.MaybeNoSuchOverloadErr(b)
	}
	return call(x.value, y.value)
}

func readQuantity(text string) (*resource.Quantity, error) {
	if len(text) > quantityBytesMax {
		return nil, fmt.Errorf("a quantity has at most %d bytes", quantityBytesMax)
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 && len(strings.TrimLeft(text[at+1:], "+-")) > exponentDigitsMax {
		return nil, fmt.Errorf("the exponent of a quantity has at most %d digits", exponentDigitsMax)
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a quantity such as 1, 500m or 2Gi: %w", text, err)
	}
	return &q, nil
}
