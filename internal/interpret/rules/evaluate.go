// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// errBudget is the end of what the rules for one object may cost together.
var errBudget = fmt.Errorf("the rules for this object cost more than %d units together, the limit", SetCostMax)

// Evaluate returns a condition for each rule that has one for the object, in
// the rules' order, each type once; without generation and transition time,
// which are the caller's. A well-known rule has none for objects of a kind that
// it says nothing about.
//
// A cancelled context ends it: the rules that were not evaluated then give
// Unknown with reason ConditionRuleInternalError.
func (s *Set) Evaluate(ctx context.Context, object *unstructured.Unstructured) []metav1.Condition {
	if s.Empty() || object == nil || object.Object == nil {
		return nil
	}
	e := evaluation{ctx: ctx, object: object, budget: SetCostMax}
	conditions := make([]metav1.Condition, 0, len(s.rules))
	for i := range s.rules {
		if c := e.rule(&s.rules[i]); c != nil {
			conditions = append(conditions, *c)
		}
	}
	return conditions
}

// evaluation is the evaluation of a set for one object.
type evaluation struct {
	ctx    context.Context //nolint:containedctx // it lives as long as one call
	object *unstructured.Unstructured
	budget uint64
}

func (e *evaluation) rule(r *rule) *metav1.Condition {
	switch {
	case r.broken != nil:
		broken := *r.broken
		return &broken
	case r.wellKnown:
		return e.wellKnown(r)
	}
	for i, program := range r.programs {
		value, err := e.run(program, map[string]any{"object": e.object.Object})
		if err != nil {
			return e.failure(r, fmt.Sprintf("celExpressions[%d]: ", i), err)
		}
		yes, ok := value.(types.Bool)
		if !ok {
			return failed(r.condition, fmt.Sprintf("celExpressions[%d] gives a value of type %s, and not true or false.", i, value.Type()))
		}
		if !yes {
			return e.evaluated(r, metav1.ConditionFalse, "")
		}
	}
	return e.evaluated(r, metav1.ConditionTrue, "")
}

// evaluated is the condition of a rule that has a result. The message is the
// first that there is of messageExpression, message, what the rule itself
// knows, and a sentence about the result.
func (e *evaluation) evaluated(r *rule, status metav1.ConditionStatus, known string) *metav1.Condition {
	message := r.message
	if text := e.text(r, status == metav1.ConditionTrue); text != "" {
		message = text
	}
	switch {
	case message != "":
	case known != "":
		message = known
	case status == metav1.ConditionTrue:
		message = "The object is " + r.condition + ": the rule's expressions are all true."
	default:
		message = "The object is not " + r.condition + ": an expression of the rule is not true."
	}
	return condition(r.condition, status, workv1.ManifestReasonConditionRuleEvaluated, message)
}

// text is what messageExpression gives, or why it gives nothing.
func (e *evaluation) text(r *rule, result bool) string {
	if r.text == nil {
		return r.textError
	}
	value, err := e.run(r.text, map[string]any{"object": e.object.Object, "result": result})
	if err != nil {
		return "The rule's messageExpression failed: " + explain(err)
	}
	text, ok := value.(types.String)
	if !ok {
		return fmt.Sprintf("The rule's messageExpression gives a value of type %s, and not a string.", value.Type())
	}
	return string(text)
}

// run evaluates a program within what is left to spend.
func (e *evaluation) run(program cel.Program, variables map[string]any) (ref.Val, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, interrupted{err}
	}
	if e.budget == 0 {
		return nil, errBudget
	}
	variables[iterationsVariable] = new(int)
	value, details, err := program.ContextEval(e.ctx, variables)
	if details != nil && details.ActualCost() != nil {
		e.budget -= min(e.budget, *details.ActualCost())
	}
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, interpreter.InterruptError{}):
		return nil, interrupted{context.Cause(e.ctx)}
	}
	return nil, err
}

// interrupted is an evaluation that the context ended.
type interrupted struct{ cause error }

func (i interrupted) Error() string {
	return fmt.Sprintf("the evaluation was interrupted: %v", i.cause)
}

func (e *evaluation) failure(r *rule, place string, err error) *metav1.Condition {
	message := place + explain(err)
	if errors.As(err, new(interrupted)) || strings.HasPrefix(err.Error(), "internal error:") {
		return condition(r.condition, metav1.ConditionUnknown, workv1.ManifestReasonConditionRuleInternalError, message)
	}
	return failed(r.condition, message)
}

// explain turns an error of CEL into words.
func explain(err error) string {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		if cancelled.Message == tooManyIterations {
			return fmt.Sprintf("its macros look at more than %d items, the limit; look at fewer items.", IterationsMax)
		}
		return fmt.Sprintf("it costs more than %d units, the limit; look at fewer items.", ExpressionCostMax)
	}
	text := strings.TrimSuffix(err.Error(), ".")
	if key, ok := strings.CutPrefix(text, "no such key: "); ok {
		return "the object has no field " + key + "; test with has() whether there is one."
	}
	return text + "."
}
