// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
)

// jsonPath is a JSONPath as kubectl takes it.
type jsonPath struct {
	nodes []jsonpath.Node
}

func compileJSONPath(text string) (pathSelector, error) {
	inner := strings.TrimSpace(text)
	if strings.HasPrefix(inner, "{") && strings.HasSuffix(inner, "}") {
		inner = inner[1 : len(inner)-1]
	}
	inner = unquoteNames(strings.TrimPrefix(inner, "$"))
	if inner == "" {
		return nil, errors.New("it selects the whole object")
	}
	if inner[0] != '.' && inner[0] != '[' {
		inner = "." + inner
	}
	parts, err := jsonpath.ParseTemplate("{" + inner + "}")
	if err != nil {
		return nil, fmt.Errorf("it is not a JSONPath such as .spec.replicas: %w", err)
	}
	if len(parts) != 1 {
		return nil, errors.New("it is not one JSONPath such as .spec.replicas")
	}
	list, ok := parts[0].(*jsonpath.ListNode)
	if !ok || len(list.Nodes) == 0 {
		return nil, errors.New("it is not a JSONPath such as .spec.replicas")
	}
	if err := checkNodes(list.Nodes); err != nil {
		return nil, err
	}
	return jsonPath{nodes: list.Nodes}, nil
}

// unquoteNames writes ['a.b'] as .a\.b, which the parser takes as one name.
func unquoteNames(text string) string {
	quotedName := regexp.MustCompile(`\[(?:'[^'\[\]]*'|"[^"\[\]]*")\]`)
	escape := regexp.MustCompile(`\\?([.,@${} ])`)
	return quotedName.ReplaceAllStringFunc(text, func(quoted string) string {
		return "." + escape.ReplaceAllString(quoted[2:len(quoted)-2], `\$1`)
	})
}

// checkNodes refuses what does not name fields.
func checkNodes(nodes []jsonpath.Node) error {
	for _, node := range nodes {
		switch n := node.(type) {
		case *jsonpath.FieldNode, *jsonpath.ArrayNode, *jsonpath.WildcardNode, *jsonpath.RecursiveNode:
		case *jsonpath.FilterNode:
			switch n.Operator {
			case "exists", "==", "!=", "<", "<=", ">", ">=":
			default:
				return fmt.Errorf("a filter cannot have %q", n.Operator)
			}
		case *jsonpath.UnionNode:
			for _, branch := range n.Nodes {
				if err := checkNodes(branch.Nodes); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("%s does not name a field", strings.TrimPrefix(node.Type().String(), "Node"))
		}
	}
	return nil
}

// visitedValue is a value in an object, and where it is.
type visitedValue struct {
	path  Path
	value any
}

func (p visitedValue) stepInto(step, value any) visitedValue {
	return visitedValue{path: append(slices.Clip(p.path), step), value: value}
}

func (j jsonPath) selectPaths(_ context.Context, object map[string]any, left *budget.Budget) ([]Path, error) {
	walk := walker{left: SelectedMax, of: left}
	places, err := walk.walkNodes(j.nodes, []visitedValue{{value: object}})
	if err != nil {
		return nil, err
	}
	found := make([]Path, 0, len(places))
	for _, p := range places {
		found = append(found, p.path)
	}
	return found, nil
}

// walker evaluates a JSONPath, looking at a limited number of places.
type walker struct {
	left int
	of   *budget.Budget
}

func (w *walker) walkNodes(nodes []jsonpath.Node, places []visitedValue) ([]visitedValue, error) {
	for _, node := range nodes {
		var next []visitedValue
		for _, p := range places {
			found, err := w.walkNode(node, p)
			if err != nil {
				return nil, err
			}
			next = append(next, found...)
		}
		places = next
	}
	return places, nil
}

func (w *walker) walkNode(node jsonpath.Node, p visitedValue) ([]visitedValue, error) {
	var found []visitedValue
	switch n := node.(type) {
	case *jsonpath.FieldNode:
		if n.Value == "" { // a lone dot
			return []visitedValue{p}, nil
		}
		found = namedEntry(n, p)
	case *jsonpath.WildcardNode:
		found = childPlaces(p)
	case *jsonpath.RecursiveNode:
		found = append(found, p)
		for i := 0; i < len(found); i++ {
			found = append(found, childPlaces(found[i])...)
			if len(found) > w.left {
				break
			}
		}
	case *jsonpath.ArrayNode:
		found = slicedItems(n, p)
	case *jsonpath.UnionNode:
		for _, branch := range n.Nodes {
			more, err := w.walkNodes(branch.Nodes, []visitedValue{p})
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	case *jsonpath.FilterNode:
		var err error
		if found, err = w.filterItems(n, p); err != nil {
			return nil, err
		}
	}
	w.left -= len(found) + 1
	if w.left < 0 {
		return nil, fmt.Errorf("it visits more than %d fields", SelectedMax)
	}
	return found, w.of.SpendValues(len(found) + 1)
}

// filterItems returns the items of a list that a filter lets pass.
func (w *walker) filterItems(n *jsonpath.FilterNode, p visitedValue) ([]visitedValue, error) {
	var found []visitedValue
	items, _ := p.value.([]any)
	for i, item := range items {
		ok, err := w.matchesFilter(n, item)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, p.stepInto(i, item))
		}
	}
	return found, nil
}

// namedEntry returns the entry of a map that a field names.
func namedEntry(n *jsonpath.FieldNode, p visitedValue) []visitedValue {
	entries, _ := p.value.(map[string]any)
	value, there := entries[n.Value]
	if !there {
		return nil
	}
	return []visitedValue{p.stepInto(n.Value, value)}
}

// childPlaces returns the entries of a map or the items of a list.
func childPlaces(p visitedValue) []visitedValue {
	var found []visitedValue
	switch container := p.value.(type) {
	case map[string]any:
		for key, value := range container {
			found = append(found, p.stepInto(key, value))
		}
	case []any:
		for i, item := range container {
			found = append(found, p.stepInto(i, item))
		}
	}
	return found
}

// slicedItems returns the items of a list that [start:end:step] names.
func slicedItems(n *jsonpath.ArrayNode, p visitedValue) []visitedValue {
	items, ok := p.value.([]any)
	if !ok || len(items) == 0 {
		return nil
	}
	start, end := jsonpath.IndexBounds(n, len(items))
	step := 1
	if n.Params[2].Known {
		step = n.Params[2].Value
	}
	var found []visitedValue
	for i := start; i >= 0 && i < end && step > 0; i += step {
		found = append(found, p.stepInto(i, items[i]))
	}
	return found
}

// matchesFilter reports whether a filter lets an item pass.
func (w *walker) matchesFilter(filter *jsonpath.FilterNode, item any) (bool, error) {
	left, err := w.operandValues(filter.Left.Nodes, item)
	if err != nil || len(left) == 0 {
		return false, err
	}
	if filter.Operator == "exists" {
		return true, nil
	}
	right, err := w.operandValues(filter.Right.Nodes, item)
	if err != nil || len(right) == 0 {
		return false, err
	}
	holds, _ := jsonpath.ComparisonHolds(left[0], filter.Operator, right[0])
	return holds, nil
}

// operandValues returns the values of one side of a comparison: a constant, or what
// a path finds in the item.
func (w *walker) operandValues(nodes []jsonpath.Node, item any) ([]any, error) {
	if len(nodes) == 1 {
		if value, ok := jsonpath.ConstantValue(nodes[0]); ok {
			return []any{value}, nil
		}
	}
	if err := checkNodes(nodes); err != nil {
		return nil, err
	}
	places, err := w.walkNodes(nodes, []visitedValue{{value: item}})
	if err != nil {
		return nil, err
	}
	values := make([]any, 0, len(places))
	for _, p := range places {
		values = append(values, p.value)
	}
	return values, nil
}
