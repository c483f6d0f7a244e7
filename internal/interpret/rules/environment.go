// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

const (
	// parserDepthMax is how deep expressions are nested.
	parserDepthMax = 100
	// stringsVersion is the version of the strings library of CEL: the last one
	// that leaves it to others what its functions cost.
	stringsVersion = 4
	// precisionMax is the number of digits that format takes after the point.
	precisionMax = 100
)

// pair has what expressions are compiled with.
type pair struct {
	rule    *cel.Env // with variable object
	message *cel.Env // with variables object and result
}

// environments makes both once, as they take milliseconds, and only if there is
// a rule that needs them. They never change.
var environments = sync.OnceValues(newEnvironments)

func newEnvironments() (*pair, error) {
	options := append([]cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(standard())),
		cel.OptionalTypes(),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(parserDepthMax),
		cel.ParserExpressionSizeLimit(ExpressionBytesMax),
		ext.Strings(ext.StringsVersion(stringsVersion), ext.StringsMaxPrecision(precisionMax)),
		boundedText(),
		cel.Function("hasConditions",
			cel.Overload("status_has_conditions", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(hasConditions))),
		cel.Variable("object", cel.DynType),
	}, slices.Concat(listFunctions(), quantities(), addresses(), urls(), formats())...)
	base, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("preparing CEL for condition rules: %w", err)
	}
	message, err := base.Extend(cel.Variable("result", cel.BoolType))
	if err != nil {
		return nil, fmt.Errorf("preparing CEL for messages: %w", err)
	}
	return &pair{rule: base, message: message}, nil
}

// hasConditions tells whether its argument, the status of an object, has a list
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
