// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// parserDepthMax is how deep expressions are nested.
	parserDepthMax = 100
	// stringsVersion is the version of the strings library of CEL: the last one
	// that leaves it to others what its functions cost.
	stringsVersion = 4
	// precisionMax is the number of digits that format takes after the point.
	precisionMax = 100
	// mathVersion and semverVersion are the versions of libraries: a new one comes
	// with a look at what its functions cost.
	mathVersion, semverVersion = 2, 1
)

// Environment is what expressions may use: functions and variables. It does not
// change and may be used by several goroutines.
type Environment struct {
	env      *cel.Env
	patterns *patterns
}

// NewEnvironment returns an environment with all functions and the given variables. It
// takes milliseconds.
func NewEnvironment(variables ...cel.EnvOption) (*Environment, error) {
	known := newPatterns()
	options := append([]cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(standard())),
		cel.OptionalTypes(),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(parserDepthMax),
		cel.ParserExpressionSizeLimit(BytesMax),
		ext.Strings(ext.StringsVersion(stringsVersion), ext.StringsMaxPrecision(precisionMax)),
		ext.Math(ext.MathVersion(mathVersion)),
		ext.Sets(),
		library.Quantity(), library.URLs(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(semverVersion)),
		library.IncludesOption(),
		boundedText(known),
		guardFunctions(functionGuards()),
		// The documentation of Kubernetes has quantity(x).sign(), its library sign(x).
		cel.Function("sign", cel.MemberOverload("quantity_sign_member", []*cel.Type{apiservercel.QuantityType}, cel.IntType,
			cel.UnaryBinding(quantitySign))),
		cel.Function("hasConditions",
			cel.Overload("status_has_conditions", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(hasConditions))),
	}, slices.Concat(listFunctions(), variables)...)
	env, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	return &Environment{env: env, patterns: known}, nil
}

// WithVariables returns the environment with more variables.
func (e *Environment) WithVariables(variables ...cel.EnvOption) (*Environment, error) {
	env, err := e.env.Extend(variables...)
	if err != nil {
		return nil, fmt.Errorf("preparing CEL with more variables: %w", err)
	}
	return &Environment{env: env, patterns: e.patterns}, nil
}

func quantitySign(value ref.Val) ref.Val {
	q, ok := value.(apiservercel.Quantity)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	return types.Int(q.Sign())
}

// hasConditions reports whether its argument, the status of an object, has a list
// of conditions that is not empty.
func hasConditions(status ref.Val) ref.Val {
	object, ok := status.(traits.Mapper)
	if !ok {
		return types.False
	}
	conditions, ok := object.Find(types.String("conditions"))
	if !ok {
		return types.False
	}
	list, ok := conditions.(traits.Lister)
	return types.Bool(ok && list.Size() != types.IntZero)
}

// sizes knows nothing about the size of an object's fields: only what an
// expression costs with any object is known before it is evaluated.
type sizes struct{}

func (sizes) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
