// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"path"
	"slices"
	"strings"
)

// refusals lists the code that only decides whether an object is refused: a folder
// with all below it, a file, or a function as folder.name. A test that a wrong value
// is refused does not prove that a right one has an effect.
func refusals() []string {
	return []string{
		"internal/apiserver/cluster/validation",
		"internal/cluster/affinity.check",
		"internal/interpret/webhook/check.go",
		"internal/scheduling/placement.checkName",
		"internal/webhook",
	}
}

// effects lists the files in refusals that change objects, and refuse none.
func effects() []string {
	return []string{
		"internal/webhook/propagation/defaults.go",
		"internal/webhook/propagation/mutate.go",
		"internal/webhook/work/mutate.go",
	}
}

// refuses reports whether a function in a file only decides what is refused.
func refuses(file, function string) bool {
	if slices.Contains(effects(), file) {
		return false
	}
	return slices.ContainsFunc(refusals(), func(refusal string) bool {
		return file == refusal || strings.HasPrefix(file, refusal+"/") || path.Dir(file)+"."+function == refusal
	})
}
