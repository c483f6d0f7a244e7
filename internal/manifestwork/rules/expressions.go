// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/expression"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

// environmentPair has what expressions are compiled with.
type environmentPair struct {
	rule    *expression.Environment // with variable object
	message *expression.Environment // with variables object and result
}

// environments makes both once, as they take milliseconds, and only if there is
// a rule that needs them. They never change.
var environments = sync.OnceValues(newEnvironments)

func newEnvironments() (*environmentPair, error) {
	rule, err := expression.NewEnvironment(cel.Variable("object", cel.DynType))
	if err != nil {
		return nil, fmt.Errorf("for condition rules: %w", err)
	}
	message, err := rule.WithVariables(cel.Variable("result", cel.BoolType))
	if err != nil {
		return nil, fmt.Errorf("for messages: %w", err)
	}
	return &environmentPair{rule: rule, message: message}, nil
}

func compileBool(text string) (*expression.Program, error) {
	envs, err := environments()
	if err != nil {
		return nil, err
	}
	return envs.rule.CompileExpression(text, cel.BoolType)
}

func compileText(text string) (*expression.Program, error) {
	envs, err := environments()
	if err != nil {
		return nil, err
	}
	return envs.message.CompileExpression(text, cel.StringType)
}

// notValid is the condition of a rule with an expression that cannot be compiled.
func notValid(name string, at int, err error) *metav1.Condition {
	message := fmt.Sprintf("celExpressions[%d] is not valid: %v", at, err)
	if !isUserError(err) {
		return newCondition(name, metav1.ConditionUnknown, workv1.ManifestReasonConditionRuleInternalError, message)
	}
	return failedCondition(name, message)
}

// isUserError reports whether an error is for the user to mend.
func isUserError(err error) bool {
	return errors.As(err, new(*expression.UserError)) || errors.Is(err, errSetCost) || errors.Is(err, errWorkCost) || errors.Is(err, budget.ErrOwner)
}
