// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads the objects about which a work asks something, when
// they have changed and no more often than its pace allows, and notes what
// they say. It keeps nothing else of them, and writes nothing.
package observe
