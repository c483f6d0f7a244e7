// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

const (
	// JQTimeout is how long one jq path expression may take for one manifest.
	JQTimeout = time.Second
	// jqDepthMax is how deep a jq path expression may be nested.
	jqDepthMax = 100
)

// jqExpression is a jq path expression, wrapped into path().
type jqExpression struct {
	code *gojq.Code
}

// jqFunctions are the functions that an expression may use, with the numbers
// of their arguments. None of them makes more than it is given, so that no
// expression can fill the memory.
func jqFunctions() map[string][]int {
	return map[string][]int{
		"select": {1}, "recurse": {0}, "empty": {0}, "first": {0, 1}, "last": {0, 1}, "getpath": {1},
		"not": {0}, "any": {0, 1}, "all": {0, 1}, "IN": {1}, "has": {1}, "contains": {1}, "startswith": {1}, "endswith": {1}, "test": {1},
		"length": {0}, "type": {0}, "ascii_downcase": {0}, "ascii_upcase": {0},
		"strings": {0}, "numbers": {0}, "booleans": {0}, "nulls": {0}, "arrays": {0}, "objects": {0},
		"iterables": {0}, "scalars": {0}, "values": {0},
	}
}

func compileJQ(text string) (pathSelector, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it is not a jq expression: %w", err)
	}
	checker := jqChecker{functions: jqFunctions()}
	if err := checker.checkQuery(query, 0); err != nil {
		return nil, err
	}
	code, err := gojq.Compile(&gojq.Query{Term: &gojq.Term{
		Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: "path", Args: []*gojq.Query{query}},
	}})
	if err != nil {
		return nil, fmt.Errorf("it is not a jq expression: %w", err)
	}
	return jqExpression{code: code}, nil
}

func (j jqExpression) selectPaths(ctx context.Context, object map[string]any, left *budget.Budget) (found []Path, err error) {
	err = left.EvaluateJQ(ctx, JQTimeout, func(ctx context.Context) error {
		found, err = j.runQuery(ctx, object)
		return err
	})
	return found, err
}

func (j jqExpression) runQuery(ctx context.Context, object map[string]any) ([]Path, error) {
	results := j.code.RunWithContext(ctx, convertNumbers(object))
	var found []Path
	for {
		result, more := results.Next()
		if !more {
			return found, nil
		}
		switch r := result.(type) {
		case error:
			if strings.HasSuffix(r.Error(), ": null") { // inside something that is not there
				return found, nil
			}
			return nil, r
		case []any:
			path, ok := resolveExistingPath(object, r)
			if ok {
				found = append(found, path)
			}
		}
		if len(found) > SelectedMax {
			return nil, fmt.Errorf("it selects more than %d fields", SelectedMax)
		}
	}
}

// resolveExistingPath returns a path of jq as ours, if the object has what is there.
func resolveExistingPath(object map[string]any, steps []any) (Path, bool) {
	var value any = object
	path := make(Path, 0, len(steps))
	for _, step := range steps {
		switch container := value.(type) {
		case map[string]any:
			key, ok := step.(string)
			inner, there := container[key]
			if !ok || !there {
				return nil, false
			}
			value, path = inner, append(path, key)
		case []any:
			index, ok := step.(int)
			if index < 0 {
				index += len(container)
			}
			if !ok || index < 0 || index >= len(container) {
				return nil, false
			}
			value, path = container[index], append(path, index)
		default:
			return nil, false
		}
	}
	return path, true
}

// convertNumbers returns a copy with the types of numbers that jq knows.
func convertNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, inner := range v {
			copied[key] = convertNumbers(inner)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, inner := range v {
			copied[i] = convertNumbers(inner)
		}
		return copied
	case int64:
		return int(v)
	default:
		return v
	}
}

// jqChecker refuses expressions that could make much out of little.
type jqChecker struct {
	functions map[string][]int
}

func (c jqChecker) checkQuery(q *gojq.Query, depth int) error {
	switch {
	case q == nil:
		return nil
	case depth > jqDepthMax:
		return fmt.Errorf("it is nested more than %d deep", jqDepthMax)
	case q.Meta != nil || len(q.Imports) > 0:
		return errors.New("it must not import modules")
	case len(q.FuncDefs) > 0:
		return errors.New("it must not define functions")
	case len(q.Patterns) > 0:
		return errors.New("it must not use variables")
	case q.Term != nil:
		return c.checkTerm(q.Term, depth+1)
	}
	switch q.Op {
	case 0:
		return errors.New("it is empty")
	case gojq.OpPipe, gojq.OpComma, gojq.OpAlt, gojq.OpAnd, gojq.OpOr,
		gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
	default:
		return fmt.Errorf("operator %s is not allowed: the expression only selects fields", q.Op)
	}
	if err := c.checkQuery(q.Left, depth+1); err != nil {
		return err
	}
	return c.checkQuery(q.Right, depth+1)
}

func (c jqChecker) checkTerm(t *gojq.Term, depth int) error {
	var err error
	switch t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeRecurse, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
	case gojq.TermTypeIndex:
		err = c.checkIndex(t.Index, depth)
	case gojq.TermTypeFunc:
		err = c.checkFunction(t.Func, depth)
	case gojq.TermTypeString:
		err = checkString(t.Str)
	case gojq.TermTypeUnary:
		err = c.checkTerm(t.Unary.Term, depth+1)
	case gojq.TermTypeArray:
		err = checkConstants(t.Array)
	case gojq.TermTypeIf:
		err = c.checkBranches(t.If, depth)
	case gojq.TermTypeQuery:
		err = c.checkQuery(t.Query, depth+1)
	default:
		err = fmt.Errorf("%q is not allowed: the expression only selects fields", shortenExpression(t.String()))
	}
	for _, suffix := range t.SuffixList {
		if err == nil && suffix.Index != nil {
			err = c.checkIndex(suffix.Index, depth)
		}
	}
	return err
}

func (c jqChecker) checkIndex(i *gojq.Index, depth int) error {
	if i.IsSlice {
		return errors.New("slices are not allowed: name the items")
	}
	if i.Str != nil {
		return checkString(i.Str)
	}
	return c.checkQuery(i.Start, depth+1)
}

func (c jqChecker) checkBranches(b *gojq.If, depth int) error {
	queries := []*gojq.Query{b.Cond, b.Then, b.Else}
	for _, elif := range b.Elif {
		queries = append(queries, elif.Cond, elif.Then)
	}
	for _, q := range queries {
		if err := c.checkQuery(q, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c jqChecker) checkFunction(f *gojq.Func, depth int) error {
	if !slices.Contains(c.functions[f.Name], len(f.Args)) {
		return fmt.Errorf("%s with %d arguments is not allowed: the expression only selects fields", f.Name, len(f.Args))
	}
	for _, argument := range f.Args {
		if err := c.checkQuery(argument, depth+1); err != nil {
			return err
		}
	}
	if f.Name == "contains" || f.Name == "test" {
		text := constantString(f.Args[0])
		if text == nil || f.Name == "test" && strings.Contains(text.Str, "{") {
			return fmt.Errorf("the argument of %s must be a string, without { for test", f.Name)
		}
	}
	return nil
}

// constantString returns the text that a query is, nil if it is something else.
func constantString(q *gojq.Query) *gojq.String {
	if q.Term == nil || q.Term.Type != gojq.TermTypeString || len(q.Term.SuffixList) > 0 {
		return nil
	}
	return q.Term.Str
}

func checkString(s *gojq.String) error {
	if len(s.Queries) > 0 {
		return errors.New("string interpolation is not allowed")
	}
	return nil
}

// checkConstants lets pass lists of texts and numbers, as getpath takes them.
func checkConstants(a *gojq.Array) error {
	for q := a.Query; q != nil; q = q.Left {
		item := q
		if q.Op == gojq.OpComma {
			item = q.Right
		}
		if item.Term == nil || len(item.Term.SuffixList) > 0 ||
			item.Term.Type != gojq.TermTypeString && item.Term.Type != gojq.TermTypeNumber ||
			item.Term.Type == gojq.TermTypeString && len(item.Term.Str.Queries) > 0 {
			return errors.New("a list may only contain strings and numbers")
		}
		if q.Op != gojq.OpComma {
			break
		}
	}
	return nil
}
