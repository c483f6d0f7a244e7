// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package footprint

import "runtime/debug"

// releaseStartup gives back the memory that only the start needed.
func releaseStartup() error {
	debug.FreeOSMemory()
	return nil
}
