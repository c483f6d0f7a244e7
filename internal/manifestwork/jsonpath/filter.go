// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonpath

import (
	"errors"
	"fmt"

	"k8s.io/client-go/util/jsonpath"
)

// filterItems keeps the items of each list for which the comparison holds. An item
// that lacks a side of it is left out.
func (w walk) filterItems(lists []any, node *jsonpath.FilterNode) ([]any, error) {
	var found []any
	for _, value := range lists {
		list, ok := value.([]any)
		switch {
		case value == nil:
			continue
		case !ok:
			return nil, fmt.Errorf("there is %s where a list was expected, and a filter needs a list", TypeName(value))
		}
		for _, item := range list {
			keep, err := w.itemMatches(item, node)
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

func (w walk) itemMatches(item any, node *jsonpath.FilterNode) (bool, error) {
	left, err := w.walkList([]any{item}, node.Left)
	if err != nil {
		return false, err
	}
	if node.Operator == "exists" {
		return len(left) > 0, nil
	}
	right, err := w.walkList([]any{item}, node.Right)
	if err != nil {
		return false, err
	}
	if len(left) == 0 || len(right) == 0 {
		return false, nil
	}
	if len(left) > 1 || len(right) > 1 {
		return false, errors.New("a filter compares one value with one value, and there are several")
	}
	holds, ordered := ComparisonHolds(left[0], node.Operator, right[0])
	if !ordered && node.Operator != "==" && node.Operator != "!=" {
		return false, fmt.Errorf("%s and %s have no order", TypeName(left[0]), TypeName(right[0]))
	}
	return holds, nil
}
