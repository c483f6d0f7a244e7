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

// guardStatements returns statements that count what they do before they do it. They
// have to be called with the functions of guardNames.
func guardStatements(statements []ast.Stmt) []ast.Stmt {
	given := &ast.LocalAssignStmt{Names: guardNames(), Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	given.SetLine(1)
	given.Exprs[0].SetLine(1)
	return append([]ast.Stmt{given}, guardBlock(statements)...)
}

// withPosition gives a new node the place of an old one.
func withPosition[N ast.PositionHolder](node N, old ast.PositionHolder) N {
	node.SetLine(old.Line())
	node.SetLastLine(max(old.Line(), old.LastLine()))
	return node
}

func newIdentifier(text string, old ast.PositionHolder) ast.Expr {
	return withPosition(&ast.IdentExpr{Value: text}, old)
}

// newGuardCall calls one of the functions. It returns exactly one value.
func newGuardCall(function string, old ast.PositionHolder, arguments ...ast.Expr) ast.Expr {
	return withPosition(&ast.FuncCallExpr{Func: newIdentifier(function, old), Args: arguments, AdjustRet: true}, old)
}

func guardBlock(statements []ast.Stmt) []ast.Stmt {
	guarded := make([]ast.Stmt, 0, len(statements))
	for _, s := range statements {
		guarded = append(guarded, guardStatement(s)...)
	}
	return guarded
}

// guardStatement returns what to execute instead of a statement.
func guardStatement(of ast.Stmt) []ast.Stmt {
	switch s := of.(type) {
	case *ast.AssignStmt:
		return []ast.Stmt{guardAssignment(s)}
	case *ast.LocalAssignStmt:
		// A function that is the only value can call itself by the name that it gets:
		// it has to stay as it is.
		if f, alone := onlyFunction(s); alone {
			guardFunction(f)
			return []ast.Stmt{countingStatement(s), s}
		}
		s.Exprs = guardExpressions(s.Exprs)
	case *ast.FuncDefStmt:
		guardFunction(s.Func)
		return []ast.Stmt{countingStatement(s), s}
	case *ast.FuncCallStmt:
		s.Expr = guardOperands(s.Expr)
	case *ast.ReturnStmt:
		s.Exprs = guardExpressions(s.Exprs)
	default:
		guardNested(of)
	}
	return []ast.Stmt{of}
}

// guardNested guards statements that have blocks.
func guardNested(of ast.Stmt) {
	switch s := of.(type) {
	case *ast.DoBlockStmt:
		s.Stmts = guardBlock(s.Stmts)
	case *ast.WhileStmt:
		s.Condition, s.Stmts = guardExpression(s.Condition), guardBlock(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition, s.Stmts = guardExpression(s.Condition), guardBlock(s.Stmts)
	case *ast.IfStmt:
		s.Condition, s.Then, s.Else = guardExpression(s.Condition), guardBlock(s.Then), guardBlock(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step, s.Stmts = guardExpression(s.Init), guardExpression(s.Limit), guardExpression(s.Step), guardBlock(s.Stmts)
	case *ast.GenericForStmt:
		s.Exprs, s.Stmts = guardExpressions(s.Exprs), guardBlock(s.Stmts)
	}
}

func onlyFunction(s *ast.LocalAssignStmt) (*ast.FunctionExpr, bool) {
	if len(s.Names) != 1 || len(s.Exprs) != 1 {
		return nil, false
	}
	f, is := s.Exprs[0].(*ast.FunctionExpr)
	return f, is
}

// countingStatement is a statement that counts a function.
func countingStatement(old ast.PositionHolder) ast.Stmt {
	return withPosition(&ast.FuncCallStmt{Expr: newGuardCall(madeName, old)}, old)
}

// guardAssignment returns an assignment in which no value is stored by a key that is
// computed: function set does that, after all keys and values are known.
func guardAssignment(s *ast.AssignStmt) ast.Stmt {
	computed := false
	for i, to := range s.Lhs {
		s.Lhs[i] = guardOperands(to)
		if _, by := computedKey(to); by {
			computed = true
		}
	}
	s.Rhs = guardExpressions(s.Rhs)
	if !computed {
		return s
	}
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		to, _ := computedKey(s.Lhs[0])
		return withPosition(&ast.FuncCallStmt{Expr: newGuardCall(setName, s, to.Object, to.Key, singleValue(s.Rhs[0]))}, s)
	}
	return assignSeveral(s)
}

// assignSeveral assigns several values: first what the left side says is computed, then
// the right side, and then they are assigned.
func assignSeveral(s *ast.AssignStmt) ast.Stmt {
	places := &ast.LocalAssignStmt{}
	values := &ast.LocalAssignStmt{Exprs: s.Rhs}
	var assign []ast.Stmt
	for i, to := range s.Lhs {
		number := strconv.Itoa(i)
		value := "(value " + number + ")"
		values.Names = append(values.Names, value)
		by, computed := computedKey(to)
		if !computed {
			assign = append(assign, withPosition(&ast.AssignStmt{Lhs: []ast.Expr{to}, Rhs: []ast.Expr{newIdentifier(value, s)}}, s))
			continue
		}
		table := "(table " + number + ")"
		at2 := "(key " + number + ")"
		places.Names = append(places.Names, table, at2)
		places.Exprs = append(places.Exprs, singleValue(by.Object), singleValue(by.Key))
		assign = append(assign, withPosition(&ast.FuncCallStmt{Expr: newGuardCall(setName, s, newIdentifier(table, s), newIdentifier(at2, s), newIdentifier(value, s))}, s))
	}
	return withPosition(&ast.DoBlockStmt{Stmts: append([]ast.Stmt{withPosition(places, s), withPosition(values, s)}, assign...)}, s)
}

// computedKey returns a place in a table whose key is not written as a name.
func computedKey(to ast.Expr) (place *ast.AttrGetExpr, computed bool) {
	place, is := to.(*ast.AttrGetExpr)
	if !is {
		return nil, false
	}
	_, fixed := place.Key.(*ast.StringExpr)
	return place, !fixed
}

// singleValue makes an expression have one value, as it has in parentheses.
func singleValue(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

func guardExpressions(list []ast.Expr) []ast.Expr {
	for i, e := range list {
		list[i] = guardExpression(e)
	}
	return list
}

// guardExpression returns what to compute instead of an expression.
func guardExpression(of ast.Expr) ast.Expr {
	switch e := of.(type) {
	case nil:
		return nil
	case *ast.StringConcatOpExpr:
		return newGuardCall(joinName, e, concatOperands(e, nil)...)
	case *ast.TableExpr:
		guardTable(e)
		return newGuardCall(madeName, e, e)
	case *ast.FunctionExpr:
		guardFunction(e)
		return newGuardCall(madeName, e, e)
	default:
		return guardOperands(of)
	}
}

// guardOperands guards the parts of an expression, which itself stays what it is.
func guardOperands(of ast.Expr) ast.Expr {
	switch e := of.(type) {
	case *ast.AttrGetExpr:
		e.Object, e.Key = guardExpression(e.Object), guardExpression(e.Key)
	case *ast.FuncCallExpr:
		e.Func, e.Receiver, e.Args = guardExpression(e.Func), guardExpression(e.Receiver), guardExpressions(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = guardExpression(e.Lhs), guardExpression(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = guardExpression(e.Lhs), guardExpression(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = guardExpression(e.Lhs), guardExpression(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = guardExpression(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = guardExpression(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = guardExpression(e.Expr)
	}
	return of
}

// concatOperands are the operands of a chain of "..", from left to right.
func concatOperands(e *ast.StringConcatOpExpr, list []ast.Expr) []ast.Expr {
	list = append(list, singleValue(guardExpression(e.Lhs)))
	if more, is := e.Rhs.(*ast.StringConcatOpExpr); is {
		return concatOperands(more, list)
	}
	return append(list, singleValue(guardExpression(e.Rhs)))
}

// guardTable guards what a new table is given. Values at its end of which only a run
// knows how many they are are counted before the table takes them: it does not
// show those that are nil.
func guardTable(e *ast.TableExpr) {
	for i, field := range e.Fields {
		field.Value = guardExpression(field.Value)
		if field.Key == nil {
			if i == len(e.Fields)-1 && hasManyValues(field.Value) {
				counted := &ast.FuncCallExpr{Func: newIdentifier(listName, field.Value), Args: []ast.Expr{field.Value}}
				field.Value = withPosition(counted, field.Value)
			}
			continue
		}
		if _, fixed := field.Key.(*ast.StringExpr); !fixed {
			field.Key = newGuardCall(keyName, field.Key, singleValue(guardExpression(field.Key)))
		}
	}
}

// hasManyValues reports whether an expression may have any number of values.
func hasManyValues(of ast.Expr) bool {
	switch e := of.(type) {
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	case *ast.Comma3Expr:
		return !e.AdjustRet
	default:
		return false
	}
}

// guardFunction guards the body of a function. One that takes any number of arguments
// counts them.
func guardFunction(f *ast.FunctionExpr) {
	f.Stmts = guardBlock(f.Stmts)
	if f.ParList.HasVargs {
		count := newGuardCall(argsName, f, withPosition(&ast.Comma3Expr{}, f))
		f.Stmts = append([]ast.Stmt{withPosition(&ast.FuncCallStmt{Expr: count}, f)}, f.Stmts...)
	}
}
