// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/expression"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

// errSetCost and errWorkCost are the end of what rules may cost together: those
// for one object, and those of the whole work.
var (
	errSetCost  = fmt.Errorf("the rules for this object exceed the cost limit of %d units", SetCostMax)
	errWorkCost = fmt.Errorf("the rules of this work, for all of its objects, exceed the cost limit of %d units", budget.CELCostMax)
)

// EvaluateRules returns a condition for each rule that has one for the object, in
// the rules' order, each type once; without generation and transition time,
// which are the caller's. A well-known rule has none for objects of a kind that
// it says nothing about.
//
// A cancelled context ends it: the rules that were not evaluated then give
// Unknown with reason ConditionRuleInternalError. Kinds know the well-known
// conditions; what expressions cost is taken from the budget of the work.
func (s *ConditionRuleSet) EvaluateRules(
	ctx context.Context, object *unstructured.Unstructured, kinds interpret.Chain, left *budget.Budget,
) []metav1.Condition {
	if s.IsEmpty() || object == nil || object.Object == nil {
		return nil
	}
	e := evaluation{ctx: ctx, object: object, kinds: kinds, left: SetCostMax, work: left}
	conditions := make([]metav1.Condition, 0, len(s.rules))
	for i := range s.rules {
		if c := e.evaluateRule(&s.rules[i]); c != nil {
			conditions = append(conditions, *c)
		}
	}
	return conditions
}

// evaluation is the evaluation of a set for one object.
type evaluation struct {
	ctx    context.Context //nolint:containedctx // it lives as long as one call
	object *unstructured.Unstructured
	kinds  interpret.Chain
	left   uint64         // that the rules for the object may cost
	work   *budget.Budget // of the whole work
}

func (e *evaluation) evaluateRule(r *compiledRule) *metav1.Condition {
	switch {
	case r.broken != nil:
		broken := *r.broken
		return &broken
	case r.wellKnown:
		return e.wellKnown(r)
	}
	for i, program := range r.programs {
		value, err := e.runProgram(program, map[string]any{"object": e.object.Object})
		if err != nil {
			return e.failureCondition(r, fmt.Sprintf("celExpressions[%d]: ", i), err)
		}
		yes, ok := value.(types.Bool)
		if !ok {
			return failedCondition(r.condition, fmt.Sprintf("celExpressions[%d] returns type %s, not a boolean.", i, value.Type()))
		}
		if !yes {
			return e.evaluatedCondition(r, metav1.ConditionFalse, "")
		}
	}
	return e.evaluatedCondition(r, metav1.ConditionTrue, "")
}

// evaluatedCondition is the condition of a rule that has a result. The message is the
// first that there is of messageExpression, message, what the rule itself
// knows, and a sentence about the result.
func (e *evaluation) evaluatedCondition(r *compiledRule, status metav1.ConditionStatus, known string) *metav1.Condition {
	message := r.message
	if text := e.evaluateMessage(r, status == metav1.ConditionTrue); text != "" {
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
	return newCondition(r.condition, status, workv1.ManifestReasonConditionRuleEvaluated, message)
}

// evaluateMessage is what messageExpression gives, or why it gives nothing.
func (e *evaluation) evaluateMessage(r *compiledRule, result bool) string {
	if r.text == nil {
		return r.textError
	}
	value, err := e.runProgram(r.text, map[string]any{"object": e.object.Object, "result": result})
	if err != nil {
		return "The rule's messageExpression failed: " + err.Error() + "."
	}
	text, ok := value.(types.String)
	if !ok {
		return fmt.Sprintf("The rule's messageExpression returns type %s, not a string.", value.Type())
	}
	return string(text)
}

// runProgram evaluates a program within what is left to spend.
func (e *evaluation) runProgram(program *expression.Program, variables map[string]any) (ref.Val, error) {
	switch {
	case e.left == 0:
		return nil, errSetCost
	case e.work.CELCost() == 0:
		return nil, errWorkCost
	case e.work.IsOwnerSpent():
		return nil, budget.ErrOwner
	}
	value, cost, err := program.EvaluateProgram(e.ctx, variables)
	e.left -= min(e.left, cost)
	e.work.SpendCEL(cost)
	return value, err
}

func (e *evaluation) failureCondition(r *compiledRule, place string, err error) *metav1.Condition {
	message := place + err.Error() + "."
	if !isUserError(err) {
		return newCondition(r.condition, metav1.ConditionUnknown, workv1.ManifestReasonConditionRuleInternalError, message)
	}
	return failedCondition(r.condition, message)
}
