// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package customized

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// keyCharactersMax is how much of a wrong key an answer has. No right one is as long.
const keyCharactersMax = 64

// CheckKeys returns which keys of spec.customizations are no operations, in their order, each
// with the one that was probably meant. A wrong key would be as good as none: nobody would be
// asked for what its author has written a script for.
func CheckKeys(keys []string) field.ErrorList {
	var wrong field.ErrorList
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if slices.Contains(lua.AllOperations(), lua.Operation(key)) {
			continue
		}
		hint := ""
		if meant := nearestOperation(key); meant != "" {
			hint = fmt.Sprintf("; do you mean %s?", meant)
		}
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "customizations"), fmt.Sprintf("%.*s", keyCharactersMax, key),
			fmt.Sprintf("it is none of the keys that count, which are %s%s", operationNames(), hint)))
	}
	return wrong
}

// nearestOperation returns the operation that looks like the key, or "".
func nearestOperation(key string) lua.Operation {
	if len(key) > keyCharactersMax {
		return ""
	}
	best := lua.Operation("")
	least := 0
	for _, operation := range lua.AllOperations() {
		edits := editDistance(strings.ToLower(key), strings.ToLower(string(operation)))
		// More than that, and it is another word.
		if edits <= len(operation)/3 && (best == "" || edits < least) {
			best = operation
			least = edits
		}
	}
	return best
}

// editDistance returns how many bytes have to be added, removed or changed to make one text the
// other.
func editDistance(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		before := row[0]
		row[0] = i + 1
		for j := range len(to) {
			changed := before
			if from[i] != to[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
