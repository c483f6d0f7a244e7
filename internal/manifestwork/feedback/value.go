// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"encoding/json"
	"fmt"
	"strconv"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
)

// fieldValue turns what was found into a value of the API, and tells its size
// in bytes; or it says why it cannot.
//
// A number is an Integer if it is whole. Another number is JSON text with the
// feature gate, as lists and objects are, and a String in the shortest decimal
// form without it: the API has no type for it, and an Integer would be wrong.
func fieldValue(found any, options ValueOptions) (value workv1.FieldValue, size int, problem string) {
	if whole, ok := fields.Whole(found); ok {
		return workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &whole}, 8, ""
	}
	switch v := found.(type) {
	case string:
		return workv1.FieldValue{Type: workv1.ValueTypeString, String: &v}, len(v), ""
	case bool:
		return workv1.FieldValue{Type: workv1.ValueTypeBoolean, Boolean: &v}, 1, ""
	case float64:
		if options.RawJSON {
			return rawJSON(v, options.MaxRawJSON)
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		return workv1.FieldValue{Type: workv1.ValueTypeString, String: &text}, len(text), ""
	case map[string]any, []any:
		if !options.RawJSON {
			return value, 0, "it is " + jsonpath.TypeName(v) + ", but only numbers, strings and booleans are reported" +
				" unless feature gate RawFeedbackJsonString is on"
		}
		return rawJSON(v, options.MaxRawJSON)
	}
	return value, 0, fmt.Sprintf("it is of type %T, which is not one of JSON", found)
}

func rawJSON(found any, limit int) (value workv1.FieldValue, size int, problem string) {
	if atLeast(found, limit, depthMax) > limit {
		return value, 0, tooLong(limit)
	}
	text, err := json.Marshal(found)
	if err != nil {
		return value, 0, fmt.Sprintf("it is not JSON: %v", err)
	}
	if len(text) > limit {
		return value, 0, tooLong(limit)
	}
	raw := string(text)
	return workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &raw}, len(raw), ""
}

func tooLong(limit int) string {
	return fmt.Sprintf("its JSON is longer than %d bytes, the limit; select a smaller part", limit)
}

// atLeast returns a number of bytes that a value takes at least as JSON, and
// stops counting beyond the limit, so that nothing long is encoded in vain.
func atLeast(value any, limit, depth int) int {
	if depth == 0 {
		return limit + 1
	}
	switch v := value.(type) {
	case string:
		return len(v) + 2
	case []any:
		size := 2
		for _, item := range v {
			if size > limit {
				return size
			}
			size += 1 + atLeast(item, limit, depth-1)
		}
		return size - min(len(v), 1)
	case map[string]any:
		size := 2
		for key, item := range v {
			if size > limit {
				return size
			}
			size += len(key) + 4 + atLeast(item, limit, depth-1)
		}
		return size - min(len(v), 1)
	}
	return 1
}
