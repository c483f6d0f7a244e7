// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// sourceMaxBytes limits a script. The definition of the API has the same limit.
const sourceMaxBytes = 64 << 10

// Script is a script that was compiled, for any number of runs at a time.
type Script struct {
	// operation is what the script is for, and function the one that it has for that.
	operation, function string
	code                *lua.FunctionProto
}

// CompileError is why a script is none.
type CompileError struct {
	// Line is where, 0 if that is not known.
	Line    int
	Message string
}

func (e *CompileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Message)
	}
	return e.Message
}

// CompileScript compiles the script of an operation, which has to have the function of
// that name at its top. An error is a *CompileError.
func CompileScript(operation, function, source string) (script *Script, err error) {
	if len(source) > sourceMaxBytes {
		return nil, &CompileError{Message: fmt.Sprintf("it has %d bytes, more than %d", len(source), sourceMaxBytes)}
	}
	defer func() { // no input may end the process
		if failed := recover(); failed != nil {
			script, err = nil, &CompileError{Message: limitMessage(fmt.Sprintf("it cannot be compiled: %v", failed))}
		}
	}()
	statements, err := parse.Parse(strings.NewReader(source), operation)
	if err != nil {
		return nil, parseError(err)
	}
	if !definesFunction(statements, function) {
		return nil, &CompileError{Message: fmt.Sprintf("it has no function %s: begin it with 'function %s(...)', not local", function, function)}
	}
	code, err := lua.Compile(guardStatements(statements), operation)
	if err != nil {
		return nil, compileError(err)
	}
	return &Script{operation: operation, function: function, code: code}, nil
}

// definesFunction reports whether statements define a global function, in either way.
func definesFunction(statements []ast.Stmt, function string) bool {
	is := func(e ast.Expr) bool {
		name, ok := e.(*ast.IdentExpr)
		return ok && name.Value == function
	}
	for _, statement := range statements {
		switch s := statement.(type) {
		case *ast.FuncDefStmt:
			if s.Name.Func != nil && is(s.Name.Func) {
				return true
			}
		case *ast.AssignStmt:
			for _, to := range s.Lhs {
				if is(to) {
					return true
				}
			}
		}
	}
	return false
}

func parseError(err error) error {
	wrong := (*parse.Error)(nil)
	if !errors.As(err, &wrong) {
		return &CompileError{Message: limitMessage(err.Error())}
	}
	if wrong.Pos.Line == parse.EOF {
		return &CompileError{Message: "it ends too early: is an 'end' missing?"}
	}
	message := strings.TrimSpace(wrong.Message)
	if wrong.Token != "" {
		message += fmt.Sprintf(" near %q", wrong.Token)
	}
	return &CompileError{Line: wrong.Pos.Line, Message: limitMessage(message)}
}

func compileError(err error) error {
	if wrong := (*lua.CompileError)(nil); errors.As(err, &wrong) {
		return &CompileError{Line: wrong.Line, Message: limitMessage(wrong.Message)}
	}
	return &CompileError{Message: limitMessage(err.Error())}
}

// limitMessage cuts a message.
func limitMessage(message string) string {
	if len(message) > messageMaxBytes {
		message = message[:messageMaxBytes] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(message, "\n", " "), "?")
}
