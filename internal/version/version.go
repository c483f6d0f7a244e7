// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version tells which release of Capstan this executable is.
package version

// release is set by the linker (see the Makefile). It is a semantic version
// without a leading "v".
var release = "0.1.0-dev"

// Get returns the semantic version of this build, without a leading "v".
func Get() string { return release }
