// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads the objects with feedback or condition rules when they
// have changed, no more often than their pace allows, and records the result.
// It keeps nothing else of them, and writes nothing.
package observe
