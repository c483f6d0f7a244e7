// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonpath

import (
	"math"
	"strings"
	"testing"

	"k8s.io/client-go/util/jsonpath"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestValuesAreCompared(t *testing.T) {
	for reason, test := range map[string]struct {
		left, right any
		order       int
		ordered     bool
	}{
		"texts":                                {"a", "b", -1, true},
		"equal texts":                          {"a", "a", 0, true},
		"booleans, false first":                {false, true, -1, true},
		"null is null":                         {nil, nil, 0, true},
		"null is nothing else":                 {nil, int64(0), 0, false},
		"numbers":                              {int64(2), int64(1), 1, true},
		"a fraction and a whole number":        {1.5, int64(2), -1, true},
		"a float64 without a fraction":         {2.0, int64(2), 0, true},
		"large whole numbers, exactly":         {int64(math.MaxInt64), int64(math.MaxInt64 - 1), 1, true},
		"a text is no number":                  {"1", int64(1), 0, false},
		"a number is no text":                  {int64(1), "1", 0, false},
		"a boolean is no number":               {true, int64(1), 0, false},
		"lists have no order":                  {[]any{}, []any{}, 0, false},
		"objects have no order, even the same": {map[string]any{}, map[string]any{}, 0, false},
	} {
		t.Run(reason, func(t *testing.T) {
			order, ordered := CompareValues(test.left, test.right)
			if ordered != test.ordered || ordered && order != test.order {
				t.Errorf("got %d, %v; want %d, %v", order, ordered, test.order, test.ordered)
			}
			for operator, want := range map[string]bool{
				"==": test.ordered && test.order == 0, "!=": !test.ordered || test.order != 0,
				"<": test.ordered && test.order < 0, "<=": test.ordered && test.order <= 0,
				">": test.ordered && test.order > 0, ">=": test.ordered && test.order >= 0, "~": false,
			} {
				if got, ordered := ComparisonHolds(test.left, operator, test.right); got != want || ordered != test.ordered {
					t.Errorf("%v %s %v: got %v, %v; want %v, %v", test.left, operator, test.right, got, ordered, want, test.ordered)
				}
			}
		})
	}
}

func TestAnIndexMeansItemsOfAList(t *testing.T) {
	for index, want := range map[string]string{ // of a list of abc
		"0": "a", "2": "c", "3": "", "-1": "c", "-3": "a", "-4": "", ":": "abc", "*": "abc", "1:": "bc", ":2": "ab", "1:2": "b",
		"0:-1": "ab", "-2:": "bc", "-9:2": "ab", "1:99": "bc", "2:1": "", "9:": "",
	} {
		t.Run(index, func(t *testing.T) {
			parsed, err := jsonpath.Parse("index", "{["+index+"]}")
			expect.NoError(t, err)
			list, ok := parsed.Root.Nodes[0].(*jsonpath.ListNode)
			if !ok || len(list.Nodes) != 1 {
				t.Fatalf("it is parsed as %v", parsed.Root.Nodes)
			}
			node, ok := list.Nodes[0].(*jsonpath.ArrayNode)
			if !ok {
				t.Fatalf("it is parsed as %v", list.Nodes[0])
			}
			first, end := IndexBounds(node, 3)
			got := ""
			if first < end {
				got = strings.Join([]string{"a", "b", "c"}[first:end], "")
			}
			if got != want {
				t.Errorf("it means %q, want %q", got, want)
			}
		})
	}
}
