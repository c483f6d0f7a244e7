// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// trouble is why an expression cannot be compiled.
type trouble struct {
	// ours means that the user can do nothing about it.
	ours bool
	text string
}

func (t *trouble) condition(name string, expression int) *metav1.Condition {
	message := fmt.Sprintf("celExpressions[%d] is not valid: %s", expression, t.text)
	if t.ours {
		return condition(name, metav1.ConditionUnknown, workv1.ManifestReasonConditionRuleInternalError, message)
	}
	return failed(name, message)
}

func compileBool(text string) (cel.Program, *trouble) {
	envs, err := environments()
	if err != nil {
		return nil, &trouble{ours: true, text: err.Error()}
	}
	return compileTo(envs.rule, text, cel.BoolType)
}

func compileText(text string) (cel.Program, *trouble) {
	envs, err := environments()
	if err != nil {
		return nil, &trouble{ours: true, text: err.Error()}
	}
	return compileTo(envs.message, text, cel.StringType)
}

func compileTo(env *cel.Env, text string, want *cel.Type) (cel.Program, *trouble) {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, &trouble{text: oneLine(issues)}
	}
	if got := ast.OutputType(); !got.IsEquivalentType(want) && !got.IsEquivalentType(cel.DynType) {
		return nil, &trouble{text: fmt.Sprintf("it gives a value of type %s, and not of type %s", got, want)}
	}
	l := &loops{conditions: map[int64]bool{}}
	if err := l.visit(ast.NativeRep().Expr(), false); err != nil {
		return nil, &trouble{text: err.Error()}
	}
	if cost, err := env.EstimateCost(ast, sizes{}); err == nil && cost.Min > ExpressionCostMax {
		return nil, &trouble{text: fmt.Sprintf("it costs at least %d units, and the limit is %d", cost.Min, ExpressionCostMax)}
	}
	program, err := env.Program(ast,
		l.counted(),
		cel.CostLimit(ExpressionCostMax),
		cel.CostTracking(prices{}),
		cel.InterruptCheckFrequency(interruptEvery),
	)
	if err != nil {
		return nil, &trouble{ours: true, text: err.Error()}
	}
	return program, nil
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
