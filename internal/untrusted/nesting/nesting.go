// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nesting bounds how deep JSON of others is nested, and its numbers, before the hub stores it.
//
// A document of JSON has 10,000 levels at most for all that read it (maxNestingDepth of encoding/json and of sigs.k8s.io/json).
// API servers store an object that has as many, and give it away in lists and events, which have more: from then on, nobody can
// list or watch the kind. Numbers beyond those of 64 bits are valid JSON that no client of Go reads either.
package nesting

import (
	"fmt"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// LevelsMax is how deep anything is nested that the hub stores for others. It is far more than any kind is, and far less than
// lists can have.
const LevelsMax = 1000

// CheckLevels returns an error if a value, as it is decoded from JSON, is nested deeper than LevelsMax.
func CheckLevels(value any) error {
	if isDeeper(value, LevelsMax) {
		return errNested()
	}
	return nil
}

// CheckText is CheckLevels for a text of JSON.
func CheckText(text []byte) error {
	if measureText(text).levels > LevelsMax {
		return errNested()
	}
	return nil
}

func errNested() error {
	return fmt.Errorf("it is nested more than %d levels deep, and nobody could read a list with it: have it nested less", LevelsMax)
}

// isDeeper reports whether objects and lists are within each other more than a number of times.
func isDeeper(value any, levels int) bool {
	switch value := value.(type) {
	case map[string]any:
		if levels == 0 {
			return true
		}
		for _, field := range value {
			if isDeeper(field, levels-1) {
				return true
			}
		}
	case []any:
		if levels == 0 {
			return true
		}
		for _, element := range value {
			if isDeeper(element, levels-1) {
				return true
			}
		}
	}
	return false
}

// IsStorableObject reports whether a text, which is JSON, is an object that can be stored as a part of another, and read again
// in a list of such.
func IsStorableObject(text string) bool {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || measureText(text).levels > LevelsMax {
		return false
	}
	if !hasLongNumbers(text) {
		return true
	}
	var decoded map[string]any
	return utiljson.Unmarshal([]byte(text), &decoded) == nil
}

// CountValues returns how many values a text of JSON has at most. It takes no memory.
func CountValues(text string) int { return measureText(text).values }

// textShape is how many objects and lists of a text of JSON are within each other, and how many values there are, at most.
type textShape struct{ levels, values int }

// measureText returns the shape of a text of JSON.
func measureText[T string | []byte](text T) (shape textShape) {
	open := 0
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // what comes next does not end the string
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			shape.values++
		case c == '{' || c == '[':
			open++
			shape.values++
			shape.levels = max(shape.levels, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return shape
}

// plainDigits is how many digits a number has that is always one of 64 bits: the largest has 309.
const plainDigits = 300

// hasLongNumbers reports whether a text of JSON has numbers with an exponent, or with many digits.
func hasLongNumbers(text string) bool {
	digits := 0
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c >= '0' && c <= '9':
			if digits++; digits > plainDigits {
				return true
			}
			continue
		case (c == 'e' || c == 'E') && digits > 0: // not that of true and false
			return true
		}
		digits = 0
	}
	return false
}
