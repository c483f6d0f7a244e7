// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	// BytesMax is the length of one expression in bytes.
	BytesMax = 10 << 10
	// CostMax is what one expression may cost, in the cost units of CEL: about one
	// for each field that is read or value that is made.
	CostMax = 1_000_000
	// interruptEvery is the number of steps of a loop after which a cancelled
	// context is noticed.
	interruptEvery = 100
)

// UserError is what is wrong with an expression, for its author to mend. All other
// errors are none of the author's.
type UserError struct{ text string }

func (e *UserError) Error() string { return e.text }

func userError(format string, args ...any) *UserError {
	return &UserError{text: fmt.Sprintf(format, args...)}
}

// Program is an expression that can be evaluated. It does not change and may be
// used by several goroutines.
type Program struct{ program cel.Program }

// CompileExpression prepares an expression that gives a value of a type.
func (e *Environment) CompileExpression(text string, want *cel.Type) (*Program, error) {
	ast, issues := e.env.Compile(text)
	if issues.Err() != nil {
		return nil, &UserError{text: oneLine(issues)}
	}
	if got := ast.OutputType(); !got.IsEquivalentType(want) && !got.IsEquivalentType(cel.DynType) {
		return nil, userError("it returns type %s, not %s", got, want)
	}
	l := &loops{conditions: map[int64]bool{}}
	if err := l.visitExpression(ast.NativeRep().Expr(), false); err != nil {
		return nil, &UserError{text: err.Error()}
	}
	if cost, err := e.env.EstimateCost(ast, sizes{}); err == nil && cost.Min > CostMax {
		return nil, userError("it costs at least %d units, and the limit is %d", cost.Min, CostMax)
	}
	program, err := e.env.Program(ast,
		l.countIterations(),
		cel.CostLimit(CostMax),
		cel.CostTracking(prices{patterns: e.patterns}),
		cel.CostTrackerOptions(setCosts()...),
		cel.InterruptCheckFrequency(interruptEvery),
	)
	if err != nil {
		return nil, fmt.Errorf("making a program of the expression: %w", err)
	}
	return &Program{program: program}, nil
}

// oneLine returns the first thing that the compiler says, without the drawing
// of the place.
func oneLine(issues *cel.Issues) string {
	all := issues.Errors()
	if len(all) == 0 {
		return issues.Err().Error()
	}
	first := all[0]
	if first.Location.Line() < 1 {
		return strings.TrimSpace(first.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, strings.TrimSpace(first.Message))
}

// EvaluateProgram evaluates the program and returns what that cost, also if it fails.
// Variables are taken over. A cancelled context ends it.
func (p *Program) EvaluateProgram(ctx context.Context, variables map[string]any) (value ref.Val, cost uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, interrupted(err)
	}
	variables[iterationsVariable] = new(int)
	value, details, err := p.program.ContextEval(ctx, variables)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	switch {
	case err == nil:
		return value, cost, nil
	case errors.Is(err, interpreter.InterruptError{}):
		return nil, cost, interrupted(context.Cause(ctx))
	case strings.HasPrefix(err.Error(), "internal error:"):
		return nil, cost, fmt.Errorf("evaluating: %w", err)
	}
	return nil, cost, &UserError{text: explainError(err)}
}

func interrupted(cause error) error {
	return fmt.Errorf("the evaluation was interrupted: %w", cause)
}

// explainError turns an error of CEL into words.
func explainError(err error) string {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		if cancelled.Message == tooManyIterations {
			return fmt.Sprintf("its macros visit more than %d items, the limit; visit fewer items", IterationsMax)
		}
		return fmt.Sprintf("it costs more than %d units, the limit; visit fewer items", CostMax)
	}
	text := strings.TrimSuffix(err.Error(), ".")
	if key, ok := strings.CutPrefix(text, "no such key: "); ok {
		return "the object has no field " + key + "; test for it with has()"
	}
	return text
}
