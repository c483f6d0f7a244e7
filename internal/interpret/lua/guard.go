// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// The functions that scripts call without knowing it. They are local variables
// whose names cannot be written in a script, so none can replace them.
const (
	joinName = "(join)" // a .. b .. c
	setName  = "(set)"  // t[k] = v
	keyName  = "(key)"  // the k of {[k] = v}
	madeName = "(made)" // a new table or function
	listName = "(list)" // the many values at the end of {...} or {f()}
	argsName = "(args)" // what a function with "..." is called with
)

// guardNames returns them in the order in which a script is given them.
func guardNames() []string { return []string{joinName, setName, keyName, madeName, listName, argsName} }

// guarded returns statements that count what they do before they do it. They
// have to be called with the functions of guardNames.
func guarded(statements []ast.Stmt) []ast.Stmt {
	given := &ast.LocalAssignStmt{Names: guardNames(), Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	given.SetLine(1)
	given.Exprs[0].SetLine(1)
	return append([]ast.Stmt{given}, block(statements)...)
}

// at gives a new node the place of an old one.
func at[N ast.PositionHolder](node N, old ast.PositionHolder) N {
	node.SetLine(old.Line())
	node.SetLastLine(max(old.Line(), old.LastLine()))
	return node
}

func name(text string, old ast.PositionHolder) ast.Expr {
	return at(&ast.IdentExpr{Value: text}, old)
}

// call calls one of the functions. It returns exactly one value.
func call(function string, old ast.PositionHolder, arguments ...ast.Expr) ast.Expr {
	return at(&ast.FuncCallExpr{Func: name(function, old), Args: arguments, AdjustRet: true}, old)
}

func block(statements []ast.Stmt) []ast.Stmt {
	guarded := make([]ast.Stmt, 0, len(statements))
	for _, s := range statements {
		guarded = append(guarded, statement(s)...)
	}
	return guarded
}

// statement returns what to execute instead of a statement.
func statement(of ast.Stmt) []ast.Stmt {
	switch s := of.(type) {
	case *ast.AssignStmt:
		return []ast.Stmt{assignment(s)}
	case *ast.LocalAssignStmt:
		// A function that is the only value can call itself by the name that it gets:
		// it has to stay as it is.
		if f, alone := only(s); alone {
			function(f)
			return []ast.Stmt{made(s), s}
		}
		s.Exprs = expressions(s.Exprs)
	case *ast.FuncDefStmt:
		function(s.Func)
		return []ast.Stmt{made(s), s}
	case *ast.FuncCallStmt:
		s.Expr = inside(s.Expr)
	case *ast.ReturnStmt:
		s.Exprs = expressions(s.Exprs)
	default:
		loop(of)
	}
	return []ast.Stmt{of}
}

// loop guards statements that have blocks.
func loop(of ast.Stmt) {
	switch s := of.(type) {
	case *ast.DoBlockStmt:
		s.Stmts = block(s.Stmts)
	case *ast.WhileStmt:
		s.Condition, s.Stmts = expression(s.Condition), block(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition, s.Stmts = expression(s.Condition), block(s.Stmts)
	case *ast.IfStmt:
		s.Condition, s.Then, s.Else = expression(s.Condition), block(s.Then), block(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step, s.Stmts = expression(s.Init), expression(s.Limit), expression(s.Step), block(s.Stmts)
	case *ast.GenericForStmt:
		s.Exprs, s.Stmts = expressions(s.Exprs), block(s.Stmts)
	}
}

func only(s *ast.LocalAssignStmt) (*ast.FunctionExpr, bool) {
	if len(s.Names) != 1 || len(s.Exprs) != 1 {
		return nil, false
	}
	f, is := s.Exprs[0].(*ast.FunctionExpr)
	return f, is
}

// made is a statement that counts a function.
func made(old ast.PositionHolder) ast.Stmt {
	return at(&ast.FuncCallStmt{Expr: call(madeName, old)}, old)
}

// assignment returns an assignment in which no value is stored by a key that is
// computed: function set does that, after all keys and values are known.
func assignment(s *ast.AssignStmt) ast.Stmt {
	computed := false
	for i, to := range s.Lhs {
		s.Lhs[i] = inside(to)
		if _, by := key(to); by {
			computed = true
		}
	}
	s.Rhs = expressions(s.Rhs)
	if !computed {
		return s
	}
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		to, _ := key(s.Lhs[0])
		return at(&ast.FuncCallStmt{Expr: call(setName, s, to.Object, to.Key, single(s.Rhs[0]))}, s)
	}
	return several(s)
}

// several assigns several values: first what the left side says is computed, then
// the right side, and then they are assigned.
func several(s *ast.AssignStmt) ast.Stmt {
	places := &ast.LocalAssignStmt{}
	values := &ast.LocalAssignStmt{Exprs: s.Rhs}
	var assign []ast.Stmt
	for i, to := range s.Lhs {
		number := strconv.Itoa(i)
		value := "(value " + number + ")"
		values.Names = append(values.Names, value)
		by, computed := key(to)
		if !computed {
			assign = append(assign, at(&ast.AssignStmt{Lhs: []ast.Expr{to}, Rhs: []ast.Expr{name(value, s)}}, s))
			continue
		}
		table := "(table " + number + ")"
		at2 := "(key " + number + ")"
		places.Names = append(places.Names, table, at2)
		places.Exprs = append(places.Exprs, single(by.Object), single(by.Key))
		assign = append(assign, at(&ast.FuncCallStmt{Expr: call(setName, s, name(table, s), name(at2, s), name(value, s))}, s))
	}
	return at(&ast.DoBlockStmt{Stmts: append([]ast.Stmt{at(places, s), at(values, s)}, assign...)}, s)
}

// key returns a place in a table whose key is not written as a name.
func key(to ast.Expr) (place *ast.AttrGetExpr, computed bool) {
	place, is := to.(*ast.AttrGetExpr)
	if !is {
		return nil, false
	}
	_, fixed := place.Key.(*ast.StringExpr)
	return place, !fixed
}

// single makes an expression have one value, as it has in parentheses.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

func expressions(list []ast.Expr) []ast.Expr {
	for i, e := range list {
		list[i] = expression(e)
	}
	return list
}

// expression returns what to compute instead of an expression.
func expression(of ast.Expr) ast.Expr {
	switch e := of.(type) {
	case nil:
		return nil
	case *ast.StringConcatOpExpr:
		return call(joinName, e, parts(e, nil)...)
	case *ast.TableExpr:
		table(e)
		return call(madeName, e, e)
	case *ast.FunctionExpr:
		function(e)
		return call(madeName, e, e)
	default:
		return inside(of)
	}
}

// inside guards the parts of an expression, which itself stays what it is.
func inside(of ast.Expr) ast.Expr {
	switch e := of.(type) {
	case *ast.AttrGetExpr:
		e.Object, e.Key = expression(e.Object), expression(e.Key)
	case *ast.FuncCallExpr:
		e.Func, e.Receiver, e.Args = expression(e.Func), expression(e.Receiver), expressions(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = expression(e.Lhs), expression(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = expression(e.Lhs), expression(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = expression(e.Lhs), expression(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = expression(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = expression(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = expression(e.Expr)
	}
	return of
}

// parts are the operands of a chain of "..", from left to right.
func parts(e *ast.StringConcatOpExpr, list []ast.Expr) []ast.Expr {
	list = append(list, single(expression(e.Lhs)))
	if more, is := e.Rhs.(*ast.StringConcatOpExpr); is {
		return parts(more, list)
	}
	return append(list, single(expression(e.Rhs)))
}

// table guards what a new table is given. Values at its end of which only a run
// knows how many they are are counted before the table takes them: it does not
// show those that are nil.
func table(e *ast.TableExpr) {
	for i, field := range e.Fields {
		field.Value = expression(field.Value)
		if field.Key == nil {
			if i == len(e.Fields)-1 && many(field.Value) {
				counted := &ast.FuncCallExpr{Func: name(listName, field.Value), Args: []ast.Expr{field.Value}}
				field.Value = at(counted, field.Value)
			}
			continue
		}
		if _, fixed := field.Key.(*ast.StringExpr); !fixed {
			field.Key = call(keyName, field.Key, single(expression(field.Key)))
		}
	}
}

// many tells whether an expression may have any number of values.
func many(of ast.Expr) bool {
	switch e := of.(type) {
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	case *ast.Comma3Expr:
		return !e.AdjustRet
	default:
		return false
	}
}

// function guards the body of a function. One that takes any number of arguments
// counts them.
func function(f *ast.FunctionExpr) {
	f.Stmts = block(f.Stmts)
	if f.ParList.HasVargs {
		count := call(argsName, f, at(&ast.Comma3Expr{}, f))
		f.Stmts = append([]ast.Stmt{at(&ast.FuncCallStmt{Expr: count}, f)}, f.Stmts...)
	}
}
