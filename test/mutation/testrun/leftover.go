// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// endLeftovers ends the processes with an environment variable of a value: the API
// servers of a test program that panicked, or was ended, have nobody else who does. They
// are found where there is /proc, and are left where there is none.
func endLeftovers(variable string) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is a good one
	for _, path := range environments {
		content, err := os.ReadFile(path)
		if err != nil || !slices.ContainsFunc(bytes.Split(content, []byte{0}), func(v []byte) bool { return string(v) == variable }) {
			continue // it has ended, belongs to somebody else, or is another one
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if process, err := os.FindProcess(id); err == nil {
			_ = process.Kill() // it may have ended by itself
		}
	}
}
