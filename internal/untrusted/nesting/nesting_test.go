// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package nesting

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// nested returns lists within each other, in an object.
func nested(levels int) string {
	return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
}

func TestLevelsAreBounded(t *testing.T) {
	for levels, fits := range map[int]bool{2: true, LevelsMax: true, LevelsMax + 1: false, 9_000: false} {
		var value any
		if err := json.Unmarshal([]byte(nested(levels)), &value); err != nil {
			t.Fatal(err)
		}
		if err := CheckLevels(value); (err == nil) != fits {
			t.Errorf("%d levels: %v", levels, err)
		}
		if err := CheckText([]byte(nested(levels))); (err == nil) != fits {
			t.Errorf("a text of %d levels: %v", levels, err)
		}
		if is := IsStorableObject(nested(levels)); is != fits {
			t.Errorf("a text of %d levels can be stored: %t", levels, is)
		}
	}
}

func TestWhatCanBeStoredCanBeRead(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, "\n{\"a\":1}": true, `{"a":"1e400"}`: true, `{"a":1e40,"b":-2.5E-3}`: true, `{"a":true,"b":false}`: true,
		`{"a":"` + strings.Repeat("7", 400) + `"}`: true,
		``: false, `null`: false, `[]`: false, nested(10_000): false,
		`{"a":1e400}`: false, `{"a":-1E400}`: false, `{"a":[1,1e+400]}`: false, `{"a":1` + strings.Repeat("0", 400) + `}`: false,
	} {
		if got := IsStorableObject(text); got != want {
			t.Errorf("%.40s: %t", text, got)
		}
		var read struct{ Items []any }
		if err := json.Unmarshal(fmt.Appendf(nil, `{"items":[{"status":%s}]}`, text), &read); want && err != nil {
			t.Errorf("%.40s cannot be read in a list: %v", text, err)
		}
	}
}

func TestShapeOfATextIsMeasured(t *testing.T) {
	for text, want := range map[string]textShape{
		`{"a":[1,2,{"b":"[{,1e5"}]}`: {levels: 3, values: 5},
		`{"\"a":true}`:               {levels: 1, values: 1},
	} {
		if got := measureText(text); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		`{"a":1e5}`: true, `{"a":-1.5E-3}`: true, `{"a":"1e5","1e5":[true,false]}`: false, `{"a":12345,"b\"1e5":6}`: false,
	} {
		if got := hasLongNumbers(text); got != want {
			t.Errorf("%s has long numbers: %t", text, got)
		}
	}
}
