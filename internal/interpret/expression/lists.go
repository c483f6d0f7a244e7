// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// listFunctions declares the functions on lists that expressions in Kubernetes
// have besides those of CEL. Those of k8s.io/apiserver are for items of one type,
// which a schema gives, and go by that of the first item without one. The objects
// here have no schema: of items that have no order, nothing is the least.
func listFunctions() []cel.EnvOption {
	list := cel.ListType(cel.DynType)
	member := func(name, id string, result *cel.Type, call func(traits.Lister) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, []*cel.Type{list}, result,
			cel.UnaryBinding(func(value ref.Val) ref.Val { return call(value.(traits.Lister)) })))
	}
	search := func(name, id string, call func(traits.Lister, ref.Val) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, []*cel.Type{list, cel.DynType}, cel.IntType,
			cel.BinaryBinding(func(value, item ref.Val) ref.Val { return call(value.(traits.Lister), item) })))
	}
	return []cel.EnvOption{
		member("isSorted", "list_is_sorted", cel.BoolType, isSorted),
		member("sum", "list_sum", cel.DynType, sumList),
		member("min", "list_min", cel.DynType, func(l traits.Lister) ref.Val { return extremeItem(l, "min", types.IntNegOne) }),
		member("max", "list_max", cel.DynType, func(l traits.Lister) ref.Val { return extremeItem(l, "max", types.IntOne) }),
		search("indexOf", "list_index_of", func(l traits.Lister, item ref.Val) ref.Val {
			for i, size := types.Int(0), l.Size().(types.Int); i < size; i++ {
				if l.Get(i).Equal(item) == types.True {
					return i
				}
			}
			return types.IntNegOne
		}),
		search("lastIndexOf", "list_last_index_of", func(l traits.Lister, item ref.Val) ref.Val {
			for i := l.Size().(types.Int) - 1; i >= 0; i-- {
				if l.Get(i).Equal(item) == types.True {
					return i
				}
			}
			return types.IntNegOne
		}),
	}
}

func isSorted(l traits.Lister) ref.Val {
	for i, size := types.Int(1), l.Size().(types.Int); i < size; i++ {
		order, failure := compareItems(l.Get(i-1), l.Get(i))
		if failure != nil {
			return failure
		}
		if order == types.IntOne {
			return types.False
		}
	}
	return types.True
}

func sumList(l traits.Lister) ref.Val {
	var total ref.Val = types.IntZero
	for i, size := types.Int(0), l.Size().(types.Int); i < size; i++ {
		item := l.Get(i)
		switch item.(type) {
		case types.Int, types.Uint, types.Double, types.Duration:
		default:
			return types.NewErr("sum: an item is of type %s, which is not a number or a duration", item.Type())
		}
		if i == 0 {
			total = item
			continue
		}
		if total = total.(traits.Adder).Add(item); types.IsError(total) {
			return total
		}
	}
	return total
}

// extremeItem returns the first item that no other one surpasses; what surpasses is
// the result of comparing an item with the best one before it.
func extremeItem(l traits.Lister, name string, surpasses types.Int) ref.Val {
	size := l.Size().(types.Int)
	if size == 0 {
		return types.NewErr("%s: the list is empty", name)
	}
	best := l.Get(types.Int(0))
	for i := types.Int(1); i < size; i++ {
		item := l.Get(i)
		order, failure := compareItems(item, best)
		if failure != nil {
			return failure
		}
		if order == surpasses {
			best = item
		}
	}
	return best
}

func compareItems(a, b ref.Val) (order, failure ref.Val) {
	comparer, ok := a.(traits.Comparer)
	if !ok {
		return nil, types.NewErr("items of type %s have no order", a.Type())
	}
	if order = comparer.Compare(b); types.IsError(order) {
		return nil, order
	}
	return order, nil
}
