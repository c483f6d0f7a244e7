// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/client-go/util/jsonpath"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// filter keeps the items of each list for which the comparison holds. An item
// that lacks a side of it is left out.
func (w walk) filter(values []any, node *jsonpath.FilterNode) ([]any, error) {
	var found []any
	for _, value := range values {
		list, ok := value.([]any)
		switch {
		case value == nil:
			continue
		case !ok:
			return nil, fmt.Errorf("there is %s where a list was expected, and a filter needs a list", typeName(value))
		}
		for _, item := range list {
			keep, err := w.keeps(item, node)
			if err != nil {
				return nil, err
			}
			if keep {
				found = append(found, item)
			}
		}
	}
	return found, nil
}

func (w walk) keeps(item any, node *jsonpath.FilterNode) (bool, error) {
	left, err := w.list([]any{item}, node.Left)
	if err != nil {
		return false, err
	}
	if node.Operator == "exists" {
		return len(left) > 0, nil
	}
	right, err := w.list([]any{item}, node.Right)
	if err != nil {
		return false, err
	}
	if len(left) == 0 || len(right) == 0 {
		return false, nil
	}
	if len(left) > 1 || len(right) > 1 {
		return false, errors.New("a filter compares one value with one value, and there are several")
	}
	return holds(left[0], node.Operator, right[0])
}

// holds compares two values. Values of different types are different, and have
// no order.
func holds(left any, operator string, right any) (bool, error) {
	order, ordered := compare(left, right)
	switch {
	case ordered:
	case operator == "==":
		return false, nil
	case operator == "!=":
		return true, nil
	default:
		return false, fmt.Errorf("%s and %s have no order", typeName(left), typeName(right))
	}
	switch operator {
	case "==":
		return order == 0, nil
	case "!=":
		return order != 0, nil
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func compare(left, right any) (order int, ordered bool) {
	if l, ok := left.(string); ok {
		r, ok := right.(string)
		return cmp.Compare(l, r), ok
	}
	if l, ok := left.(bool); ok {
		r, ok := right.(bool)
		return cmp.Compare(rank(l), rank(r)), ok
	}
	if left == nil && right == nil {
		return 0, true
	}
	l, lok := fields.Whole(left)
	r, rok := fields.Whole(right)
	if lok && rok {
		return cmp.Compare(l, r), true
	}
	lf, lok := float(left)
	rf, rok := float(right)
	return cmp.Compare(lf, rf), lok && rok
}

func float(value any) (float64, bool) {
	if whole, ok := fields.Whole(value); ok {
		return float64(whole), true
	}
	number, ok := value.(float64)
	return number, ok
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}
