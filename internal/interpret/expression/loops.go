// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	// loopItemsMax is how many items a list that is written out may have inside a
	// macro such as map or filter. CEL has one price for a list, however long,
	// and a macro makes it again for each item that it looks at.
	loopItemsMax = 64
	// loopEntriesMax is the same for the entries of a map.
	loopEntriesMax = 16
	// IterationsMax is how many items the macros of one expression may look at,
	// each time that they look at one. Counting the cost takes time that grows
	// with the square of it.
	IterationsMax = 10_000
	// iterationsVariable has the *int that counts. No expression can name it.
	iterationsVariable = "@iterations"
)

// loops finds the conditions of the loops of an expression, by which their
// iterations are counted, and what is too long inside of a loop.
type loops struct {
	conditions map[int64]bool
}

func (l *loops) visitExpression(e ast.Expr, inLoop bool) error {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			if err := l.visitExpression(call.Target(), inLoop); err != nil {
				return err
			}
		}
		return l.visitExpressions(inLoop, call.Args()...)
	case ast.SelectKind:
		return l.visitExpression(e.AsSelect().Operand(), inLoop)
	case ast.ListKind:
		list := e.AsList()
		if inLoop && list.Size() > loopItemsMax {
			return fmt.Errorf("a list inside a macro has %d items; the limit is %d", list.Size(), loopItemsMax)
		}
		return l.visitExpressions(inLoop, list.Elements()...)
	case ast.MapKind:
		entries := e.AsMap().Entries()
		if inLoop && len(entries) > loopEntriesMax {
			return fmt.Errorf("a map inside a macro has %d entries; the limit is %d", len(entries), loopEntriesMax)
		}
		for _, entry := range entries {
			if err := l.visitExpressions(inLoop, entry.AsMapEntry().Key(), entry.AsMapEntry().Value()); err != nil {
				return err
			}
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		l.conditions[loop.LoopCondition().ID()] = true
		if err := l.visitExpressions(inLoop, loop.IterRange(), loop.AccuInit()); err != nil {
			return err
		}
		return l.visitExpressions(true, loop.LoopCondition(), loop.LoopStep(), loop.Result())
	}
	return nil
}

func (l *loops) visitExpressions(inLoop bool, list ...ast.Expr) error {
	for _, e := range list {
		if err := l.visitExpression(e, inLoop); err != nil {
			return err
		}
	}
	return nil
}

// countIterations makes a program count the iterations of its loops.
func (l *loops) countIterations() cel.ProgramOption {
	return cel.CustomDecoratorV2(func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if !l.conditions[node.ID()] {
			return node, nil
		}
		if call, ok := node.(interpreter.InterpretableCall); ok {
			return &countedCall{call}, nil
		}
		return &countedValue{node}, nil
	})
}

// countedCall is the condition of a loop, a call, that is evaluated once for
// each item.
type countedCall struct{ interpreter.InterpretableCall }

func (c *countedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	countIteration(frame)
	return c.InterpretableCall.Exec(frame)
}

func (c *countedCall) Eval(activation interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(activation))
}

// countedValue is the same for a condition that is not a call.
type countedValue struct{ interpreter.InterpretableV2 }

func (c *countedValue) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	countIteration(frame)
	return c.InterpretableV2.Exec(frame)
}

func (c *countedValue) Eval(activation interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(activation))
}

// countIteration ends the evaluation when there were too many iterations, in the way in
// which CEL itself ends one that costs too much; CEL makes it an error.
func countIteration(frame *interpreter.ExecutionFrame) {
	value, _ := frame.ResolveName(iterationsVariable)
	counter, ok := value.(*int)
	if !ok {
		return
	}
	if *counter++; *counter > IterationsMax {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: tooManyIterations})
	}
}

// tooManyIterations is the message of the error that count makes.
const tooManyIterations = "too many iterations"
