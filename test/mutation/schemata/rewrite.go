// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/packages"

	"github.com/capstan-io/capstan/test/mutation/mutant"
)

// targets are what is mutated: fields and constants, and what their mutants are
// called, without how they are used.
type targets struct {
	fields  map[*types.Var]string
	reasons map[*types.Const]string
}

// addAliases adds the constants of a file that are declared as one of the reasons.
func (t targets) addAliases(info *types.Info, file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			return true
		}
		for i, value := range spec.Values {
			if selector, ok := value.(*ast.SelectorExpr); ok {
				value = selector.Sel
			}
			ident, _ := value.(*ast.Ident)
			of, _ := info.Uses[ident].(*types.Const)
			alias, isConstant := info.Defs[spec.Names[i]].(*types.Const)
			if name, known := t.reasons[of]; known && isConstant {
				t.reasons[alias] = name
			}
		}
		return true
	})
}

// The ways to use a field or reason, each of which is a mutant.
const (
	reading  = "read:"
	refusing = "refuse:" // reading it to refuse an object
	writing  = "write:"
	reason   = "reason:"
)

// definitionsFile is the file of the product that reads the definitions of kinds, and
// definitionsFolder has them.
const (
	definitionsFile   = "config/config.go"
	definitionsFolder = "config/crd/"
)

// rewriter makes the mutants in one file.
type rewriter struct {
	targets targets
	info    *types.Info
	path    string
	text    *text
	// mutants are those that were made.
	mutants map[string]bool
}

// rewrite returns the text of a file in which every use of a target asks whether its
// mutant is on, and the mutants in it; nothing if it has none.
func rewrite(pkg *packages.Package, path string, file *ast.File, source []byte, targets targets) ([]byte, map[string]bool) {
	r := &rewriter{
		targets: targets, info: pkg.TypesInfo, path: path, mutants: map[string]bool{},
		text: newText(source, pkg.Fset.File(file.FileStart), pkg.Types),
	}
	nodes := []ast.Node{(*ast.SelectorExpr)(nil), (*ast.Ident)(nil), (*ast.KeyValueExpr)(nil), (*ast.CallExpr)(nil)}
	inspector.New([]*ast.File{file}).WithStack(nodes, func(node ast.Node, push bool, stack []ast.Node) bool {
		if !push {
			return true
		}
		switch n := node.(type) {
		case *ast.SelectorExpr:
			r.selected(n, stack)
		case *ast.Ident:
			r.named(n, stack)
		case *ast.KeyValueExpr:
			r.given(n)
		case *ast.CallExpr:
			r.called(n)
		}
		return true
	})
	if len(r.mutants) == 0 {
		return nil, nil
	}
	return r.text.withImports(file), r.mutants
}

// selected mutates a field that is selected.
func (r *rewriter) selected(selector *ast.SelectorExpr, stack []ast.Node) {
	selection := r.info.Selections[selector]
	if selection == nil || selection.Kind() != types.FieldVal {
		return
	}
	field, _ := selection.Obj().(*types.Var)
	name, ok := r.targets.fields[field]
	if !ok {
		return
	}
	read := reading
	if refuses(r.path, functionOf(stack)) {
		read = refusing
	}
	how := useOf(r.info, stack)
	if !isAddressable(r.info, selector) {
		how = isRead
	}
	switch how {
	case isRead:
		r.text.wrap(selector, fmt.Sprintf("mutant.Read(%q, ", read+name), ")")
		r.mutants[read+name] = true
	case isAddressed:
		r.text.wrap(selector, fmt.Sprintf("(*mutant.Ref(%q, %q, &", read+name, writing+name), "))")
		r.mutants[read+name], r.mutants[writing+name] = true, true
	case isWritten:
		if value := assignedTo(selector, stack); value != nil {
			r.write(value, field, name)
			return
		}
		r.mutants[writing+name] = true
		r.text.wrap(selector, fmt.Sprintf("(*mutant.Into(%q, &", writing+name), "))")
	}
}

// write mutates a value that a field gets.
func (r *rewriter) write(value ast.Expr, field *types.Var, name string) {
	r.text.wrap(value, fmt.Sprintf("mutant.Write[%s](%q, ", r.text.typeName(field.Type()), writing+name), ")")
	r.mutants[writing+name] = true
}

// assignedTo returns the value that a statement assigns to a field itself; nothing if
// it changes a part of the field, or assigns what a call returns beside other things.
func assignedTo(selector *ast.SelectorExpr, stack []ast.Node) ast.Expr {
	assignment, ok := stack[len(stack)-2].(*ast.AssignStmt)
	if !ok || assignment.Tok != token.ASSIGN || len(assignment.Lhs) != len(assignment.Rhs) {
		return nil
	}
	return assignment.Rhs[slices.Index(assignment.Lhs, ast.Expr(selector))]
}

// given mutates a field that gets its value in a literal.
func (r *rewriter) given(pair *ast.KeyValueExpr) {
	key, ok := pair.Key.(*ast.Ident)
	if !ok {
		return
	}
	field, _ := r.info.Uses[key].(*types.Var)
	name, ok := r.targets.fields[field]
	if !ok || field == nil {
		return
	}
	r.write(pair.Value, field, name)
}

// named mutates a reason.
func (r *rewriter) named(ident *ast.Ident, stack []ast.Node) {
	constant, _ := r.info.Uses[ident].(*types.Const)
	name, ok := r.targets.reasons[constant]
	if !ok || constant == nil || slices.ContainsFunc(stack, isConstantDeclaration) {
		return
	}
	var whole ast.Expr = ident
	if selector, ok := stack[len(stack)-2].(*ast.SelectorExpr); ok {
		whole = selector
	}
	r.text.wrap(whole, fmt.Sprintf("mutant.Reason[%s](%q, ", r.text.typeName(r.info.TypeOf(whole)), reason+name), ")")
	r.mutants[reason+name] = true
}

// called mutates the fields of a struct that is converted from another, and the
// definitions of kinds where they are read.
func (r *rewriter) called(call *ast.CallExpr) {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "ReadFile" && r.path == definitionsFile {
		r.text.wrap(call, "mutant.Definition(", ")")
		r.mutants[mutant.Schema] = true
	}
	to := r.info.Types[call.Fun]
	if !to.IsType() {
		return
	}
	structure, ok := to.Type.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for field := range structure.Fields() {
		if name, ok := r.targets.fields[field]; ok {
			whole, part := r.text.typeName(to.Type), r.text.typeName(field.Type())
			r.text.wrap(call, fmt.Sprintf("mutant.Converted(%q, func(v *%s) *%s { return &v.%s }, ", writing+name, whole, part, field.Name()), ")")
			r.mutants[writing+name] = true
		}
	}
}

func isConstantDeclaration(node ast.Node) bool {
	declaration, ok := node.(*ast.GenDecl)
	return ok && declaration.Tok == token.CONST
}

// functionOf returns the name of the function around the last node of the stack.
func functionOf(stack []ast.Node) string {
	for _, node := range stack {
		if function, ok := node.(*ast.FuncDecl); ok {
			return function.Name.Name
		}
	}
	return ""
}
