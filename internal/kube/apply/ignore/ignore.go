// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignore finds the fields of a manifest to ignore, removes them, and
// releases their ownership.
//
// Fields are named by JSONPath as kubectl takes it, by JSON pointer, or by jq
// path expression. All is pure, and bounded in time and memory whatever the
// expressions and the manifest are: see the constants.
package ignore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

const (
	// ExpressionSizeMax is the size in bytes of one expression.
	ExpressionSizeMax = 1024
	// ExpressionsMax is how many expressions one entry of ignoreFields may have.
	ExpressionsMax = 100
	// SelectedMax is how many fields of a manifest one expression may select, and
	// how many places it may look at on its way.
	SelectedMax = 10_000
)

// ErrExpression says that an expression is wrong, for its author to mend.
var ErrExpression = errors.New("updateStrategy.serverSideApply.ignoreFields")

// Path is the way to a field from the root of an object: names of map entries
// (string) and indexes of list items (int).
type Path []any

// String returns the path as a JSON pointer.
func (p Path) String() string { return formatPointer(p) }

// pathSelector is one compiled expression.
type pathSelector interface {
	// selectPaths returns where the fields are that the expression selects, if there is
	// budget left to find out.
	selectPaths(ctx context.Context, object map[string]any, left *budget.Budget) ([]Path, error)
}

type ignoreExpression struct {
	pathSelector
	text      string
	condition workv1.IgnoreFieldsCondition
}

// CompiledFields are compiled expressions. They are safe for concurrent use.
type CompiledFields struct {
	expressions []ignoreExpression
}

// CompileExpressions compiles expressions. Its errors are ErrExpression, and name the
// expression and what is wrong with it.
func CompileExpressions(fields []workv1.IgnoreField) (*CompiledFields, error) {
	compiled := &CompiledFields{}
	var problems []error
	for i := range fields {
		field := &fields[i]
		for _, language := range []struct {
			name        string
			expressions []string
			compile     func(string) (pathSelector, error)
		}{
			{"jsonPaths", field.JSONPaths, compileJSONPath},
			{"jsonPointers", field.JSONPointers, compilePointer},
			{"jqPathExpressions", field.JQPathExpressions, compileJQ},
		} {
			if len(language.expressions) > ExpressionsMax {
				problems = append(problems, fmt.Errorf("%w[%d].%s has %d expressions, at most %d are allowed",
					ErrExpression, i, language.name, len(language.expressions), ExpressionsMax))
				continue
			}
			for _, text := range language.expressions {
				s, err := compileOne(text, language.compile)
				if err != nil {
					problems = append(problems, fmt.Errorf("%w[%d].%s: %q: %w", ErrExpression, i, language.name, shortenExpression(text), err))
					continue
				}
				condition := field.Condition
				if condition == "" {
					condition = workv1.IgnoreFieldsConditionOnSpokePresent
				}
				compiled.expressions = append(compiled.expressions, ignoreExpression{pathSelector: s, text: text, condition: condition})
			}
		}
	}
	return compiled, errors.Join(problems...)
}

func compileOne(text string, compile func(string) (pathSelector, error)) (pathSelector, error) {
	switch {
	case text == "":
		return nil, errors.New("it is empty")
	case len(text) > ExpressionSizeMax:
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), ExpressionSizeMax)
	default:
		return compile(text)
	}
}

// shortenExpression keeps messages short.
func shortenExpression(text string) string {
	const longest = 100 // bytes
	if len(text) <= longest {
		return text
	}
	return text[:longest] + "..."
}

// SelectPaths returns the fields of a manifest to leave out of what is applied to
// an object that exists, sorted and without those inside others. Changed says
// that the object was not made from this manifest. Fields that the manifest
// does not have are not selected. The errors are ErrExpression.
//
// What it costs is taken from the budget of the work that the manifest is of.
func (f *CompiledFields) SelectPaths(ctx context.Context, manifest map[string]any, changed bool, left *budget.Budget) ([]Path, error) {
	var all []Path
	for i := range f.expressions {
		e := &f.expressions[i]
		if changed && e.condition == workv1.IgnoreFieldsConditionOnSpokeChange {
			continue
		}
		found, err := e.selectPaths(ctx, manifest, left)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrExpression, shortenExpression(e.text), err)
		}
		for _, path := range found {
			if isRequiredPath(path) {
				return nil, fmt.Errorf("%w: %q: it selects %q, which identifies the object and cannot be ignored", ErrExpression, shortenExpression(e.text), path)
			}
		}
		all = append(all, found...)
	}
	return MinimalPaths(all), nil
}

// isRequiredPath reports whether an object cannot do without what is at the path.
func isRequiredPath(path Path) bool {
	if len(path) == 0 {
		return true
	}
	switch path[0] {
	case "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) == 1 || path[1] == "name" || path[1] == "namespace"
	}
	return false
}

// MinimalPaths sorts paths, and drops those that are at or below another one.
func MinimalPaths(paths []Path) []Path {
	slices.SortFunc(paths, comparePaths)
	kept := paths[:0]
	for _, path := range paths {
		if len(kept) > 0 && hasPrefix(path, kept[len(kept)-1]) {
			continue
		}
		kept = append(kept, path)
	}
	return kept
}

func hasPrefix(path, prefix Path) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// comparePaths orders a path before those below it, and list items by index.
func comparePaths(a, b Path) int {
	return slices.CompareFunc(a, b, func(x, y any) int {
		i, xIsIndex := x.(int)
		j, yIsIndex := y.(int)
		switch {
		case xIsIndex && yIsIndex:
			return i - j
		case xIsIndex:
			return -1
		case yIsIndex:
			return 1
		}
		s, _ := x.(string)
		t, _ := y.(string)
		switch {
		case s < t:
			return -1
		case s > t:
			return 1
		}
		return 0
	})
}

// RemovePaths takes the fields at the paths out of an object. The paths are as
// Select returns them. Of a list the other items stay, in their order.
func RemovePaths(object map[string]any, paths []Path) {
	removePathsBelow(object, paths, 0)
}

// removePathsBelow returns the value without what is at the paths, which lead to it in as many
// steps as the depth says. It looks at each path, and each item of a list, once.
func removePathsBelow(value any, paths []Path, depth int) any {
	switch container := value.(type) {
	case map[string]any:
		for group := range groupByStep(paths, depth) {
			key, is := group[0][depth].(string)
			inner, there := container[key]
			switch {
			case !is || !there:
			case len(group[0]) == depth+1:
				delete(container, key)
			default:
				container[key] = removePathsBelow(inner, group, depth+1)
			}
		}
		return container
	case []any:
		return removeItems(container, paths, depth)
	default:
		return value
	}
}

func removeItems(list []any, paths []Path, depth int) []any {
	gone := map[int]bool{}
	for group := range groupByStep(paths, depth) {
		index, is := group[0][depth].(int)
		switch {
		case !is || index < 0 || index >= len(list):
		case len(group[0]) == depth+1:
			gone[index] = true
		default:
			list[index] = removePathsBelow(list[index], group, depth+1)
		}
	}
	kept := list[:0]
	for i, item := range list {
		if !gone[i] {
			kept = append(kept, item)
		}
	}
	clear(list[len(kept):])
	return kept
}

// groupByStep returns the paths that take the same step at a depth, which are sorted.
func groupByStep(paths []Path, depth int) iter.Seq[[]Path] {
	return func(yield func([]Path) bool) {
		for len(paths) > 0 {
			same := 1
			for same < len(paths) && paths[same][depth] == paths[0][depth] {
				same++
			}
			if !yield(paths[:same]) {
				return
			}
			paths = paths[same:]
		}
	}
}
