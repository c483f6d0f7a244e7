// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonpath

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

// FindValues returns the values at the path. It takes from the meter the values that
// it visits.
func (p *Path) FindValues(object map[string]any, visits *budget.ValueMeter) ([]any, error) {
	w := walk{visits: visits}
	return w.walkList([]any{object}, p.root)
}

// walk is the evaluation of one path.
type walk struct {
	visits *budget.ValueMeter
}

func (w walk) walkList(values []any, list *jsonpath.ListNode) ([]any, error) {
	var err error
	for _, node := range list.Nodes {
		if values, err = w.walkNode(values, node); err != nil {
			return nil, err
		}
		if len(values) > hitsMax {
			return nil, fmt.Errorf("it finds more than %d values; use a narrower path", hitsMax)
		}
	}
	return values, nil
}

func (w walk) walkNode(values []any, node jsonpath.Node) ([]any, error) {
	if err := w.visits.TakeValues(1 + len(values)); err != nil {
		return nil, err
	}
	switch node := node.(type) {
	case *jsonpath.FieldNode:
		return takeField(values, node.Value), nil
	case *jsonpath.ArrayNode:
		return w.sliceArray(values, node)
	case *jsonpath.FilterNode:
		return w.filterItems(values, node)
	case *jsonpath.WildcardNode:
		return w.wildcard(values)
	case *jsonpath.RecursiveNode:
		var found []any
		for _, value := range values {
			if err := w.collectRecursive(value, depthMax, &found); err != nil {
				return nil, err
			}
		}
		return found, nil
	case *jsonpath.UnionNode:
		return w.walkUnion(values, node)
	case *jsonpath.ListNode:
		return w.walkList(values, node)
	}
	if value, ok := ConstantValue(node); ok {
		return []any{value}, nil
	}
	return nil, fmt.Errorf("%s is not possible here", node)
}

func (w walk) walkUnion(values []any, node *jsonpath.UnionNode) ([]any, error) {
	var found []any
	for _, part := range node.Nodes {
		hits, err := w.walkList(values, part)
		if err != nil {
			return nil, err
		}
		found = append(found, hits...)
	}
	return found, nil
}

// ConstantValue returns the value that is written in a path, and whether the node is
// one.
func ConstantValue(node jsonpath.Node) (any, bool) {
	switch node := node.(type) {
	case *jsonpath.TextNode:
		return node.Text, true
	case *jsonpath.IntNode:
		return int64(node.Value), true
	case *jsonpath.FloatNode:
		return node.Value, true
	case *jsonpath.BoolNode:
		return node.Value, true
	}
	return nil, false
}

// takeField takes the field out of each object that has it. There is mostly one
// value, which needs no new list.
func takeField(values []any, name string) []any {
	if len(values) == 1 {
		if object, ok := values[0].(map[string]any); ok {
			if value, ok := object[name]; ok {
				return []any{value}
			}
		}
		return nil
	}
	var found []any
	for _, value := range values {
		if object, ok := value.(map[string]any); ok {
			if value, ok := object[name]; ok {
				found = append(found, value)
			}
		}
	}
	return found
}

// sliceArray takes the part [first:end:step] out of each list. An index that a list
// does not have is a field that is not there, not a mistake: the list may
// still be filled.
func (w walk) sliceArray(values []any, node *jsonpath.ArrayNode) ([]any, error) {
	stride := 1
	if node.Params[2].Known {
		if stride = node.Params[2].Value; stride <= 0 {
			return nil, errors.New("the step of a list index must be more than 0")
		}
	}
	var found []any
	for _, value := range values {
		list, ok := value.([]any)
		switch {
		case value == nil:
			continue
		case !ok:
			return nil, fmt.Errorf("there is %s where a list was expected", TypeName(value))
		}
		first, end := IndexBounds(node, len(list))
		if err := w.visits.TakeValues(max(0, end-first) / stride); err != nil {
			return nil, err
		}
		for i := first; i < end; i += stride {
			found = append(found, list[i])
			if i > end-stride {
				break // so that i cannot overflow
			}
		}
	}
	return found, nil
}

func (w walk) wildcard(values []any) ([]any, error) {
	var found []any
	for _, value := range values {
		children := childrenOf(value)
		if err := w.visits.TakeValues(len(children)); err != nil {
			return nil, err
		}
		found = append(found, children...)
	}
	return found, nil
}

// collectRecursive collects each object and list at and below a value that is not
// empty, the outer ones first.
func (w walk) collectRecursive(value any, depth int, found *[]any) error {
	children := childrenOf(value)
	if len(children) == 0 {
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("the object is deeper than %d levels; \"..\" is not possible", depthMax)
	}
	if err := w.visits.TakeValues(1 + len(children)); err != nil {
		return err
	}
	if len(*found) >= hitsMax {
		return fmt.Errorf("it finds more than %d values; use a narrower path", hitsMax)
	}
	*found = append(*found, value)
	for _, child := range children {
		if err := w.collectRecursive(child, depth-1, found); err != nil {
			return err
		}
	}
	return nil
}

// childrenOf returns the items of a list, or the values of an object in the
// order of their keys.
func childrenOf(value any) []any {
	switch v := value.(type) {
	case []any:
		return v
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, strings.Compare)
		children := make([]any, len(keys))
		for i, key := range keys {
			children[i] = v[key]
		}
		return children
	}
	return nil
}
