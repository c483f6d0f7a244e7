// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"go/ast"
	"go/token"
	"go/types"
)

// use is what an expression does with the field that it selects.
type use int

const (
	isRead use = iota
	isWritten
	// isAddressed is of a field whose address is taken, also by the call of a method.
	isAddressed
)

// useOf returns what is done with the field that the last node of the stack selects.
// Who writes to a part of a field writes to the field.
func useOf(info *types.Info, stack []ast.Node) use {
	direct := true // what is used is a part of the field itself, and not of what it points to
	for i := len(stack) - 1; i > 0; i-- {
		child, _ := stack[i].(ast.Expr)
		switch parent := stack[i-1].(type) {
		case *ast.ParenExpr:
		case *ast.StarExpr:
			direct = false
		case *ast.SelectorExpr:
			selection := info.Selections[parent]
			if selection == nil {
				return isRead
			}
			if selection.Kind() != types.FieldVal {
				return useOfReceiver(selection, direct)
			}
			direct = direct && !isPointer(info.TypeOf(child))
		case *ast.IndexExpr:
			if parent.X != child {
				return isRead
			}
			if _, ok := info.TypeOf(child).Underlying().(*types.Array); !ok {
				direct = false
			}
		case *ast.UnaryExpr:
			if parent.Op == token.AND && direct {
				return isAddressed
			}
			return isRead
		default:
			if isAssigned(child, parent) {
				return isWritten
			}
			return isRead
		}
	}
	return isRead
}

// useOfReceiver returns what a call of a method does with the field that it is called
// on: a method of a pointer gets the address of a field that is none.
func useOfReceiver(selection *types.Selection, direct bool) use {
	signature, ok := selection.Obj().Type().(*types.Signature)
	if ok && direct && isPointer(signature.Recv().Type()) && !isPointer(selection.Recv()) {
		return isAddressed
	}
	return isRead
}

// isAssigned reports whether a statement assigns to an expression.
func isAssigned(expression ast.Expr, statement ast.Node) bool {
	switch s := statement.(type) {
	case *ast.AssignStmt:
		for _, left := range s.Lhs {
			if left == expression {
				return true
			}
		}
	case *ast.IncDecStmt:
		return s.X == expression
	case *ast.RangeStmt:
		return s.Key == expression || s.Value == expression
	}
	return false
}

// isAddressable reports whether Go allows to take the address of an expression.
func isAddressable(info *types.Info, expression ast.Expr) bool {
	switch e := expression.(type) {
	case *ast.ParenExpr:
		return isAddressable(info, e.X)
	case *ast.StarExpr:
		return true
	case *ast.Ident:
		_, ok := info.ObjectOf(e).(*types.Var)
		return ok
	case *ast.SelectorExpr:
		selection := info.Selections[e]
		return selection == nil || selection.Indirect() || isPointer(info.TypeOf(e.X)) || isAddressable(info, e.X)
	case *ast.IndexExpr:
		switch info.TypeOf(e.X).Underlying().(type) {
		case *types.Slice, *types.Pointer:
			return true
		case *types.Array:
			return isAddressable(info, e.X)
		}
	}
	return false
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}
