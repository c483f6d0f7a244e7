// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet runs a hub and members for benchmarks and fault tests: clusters
// without nodes from the lab, and the built executable as plain processes
// beside them. What it does, it does through the API. It needs root, and what
// `make build lab-build` builds.
package fleet
